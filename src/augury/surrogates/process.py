"""What a neural surrogate leaves open: a CNN for images, an MLP for everything else."""

from augury._errors import UnsupportedError
from augury.surrogates.cnn import cnn_for
from augury.surrogates.empirical_process import EmpiricalProcess
from augury.surrogates.ntk_process import NTKProcess

Process = NTKProcess | EmpiricalProcess


def check_process(process: object) -> None:
    """Refuse what is not a process; None is chosen later."""
    if not isinstance(process, NTKProcess | EmpiricalProcess | None):
        raise UnsupportedError(
            f"process must be an NTKProcess or an EmpiricalProcess; got {process!r}. "
            "Use NTKProcess(depth=2), or EmpiricalProcess(network) for a network of your own."
        )


def process_for(process: Process | None, shape: tuple[int, ...]) -> Process:
    """The process for inputs of that shape; what the user left open is chosen."""
    if isinstance(process, EmpiricalProcess):
        return process.on(shape)
    if process is not None:
        return process
    network = cnn_for(shape)
    return NTKProcess() if network is None else EmpiricalProcess(network)
