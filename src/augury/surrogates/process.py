"""What surrogates of finite networks share: a process, which has the network and its settings."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from augury._errors import UnsupportedError
from augury.core.data import Data
from augury.core.keys import KeyArray
from augury.surrogates.cnn import cnn_for
from augury.surrogates.empirical_process import EmpiricalProcess
from augury.surrogates.ntk_process import NTKProcess

Process = NTKProcess | EmpiricalProcess


@dataclass(frozen=True)
class NeuralSurrogate:
    """A surrogate whose network is that of a process; None is chosen by the shape of the inputs."""

    process: Process | None = None

    steady: ClassVar[bool] = True  # every fit of a study gets the same key, hence the same θ_0

    def __post_init__(self) -> None:
        if not isinstance(self.process, NTKProcess | EmpiricalProcess | None):
            raise UnsupportedError(
                f"process must be an NTKProcess or an EmpiricalProcess; got {self.process!r}. "
                "Use NTKProcess(depth=2), or EmpiricalProcess(network) for a network of your own."
            )

    def on(self, shape: tuple[int, ...], *, finite: bool) -> Self:
        """The surrogate for inputs of that shape: what was left open is a CNN for images, else an MLP."""
        if isinstance(self.process, EmpiricalProcess):
            return replace(self, process=self.process.on(shape))
        network = cnn_for(shape) if self.process is None else None
        return replace(self, process=self._process if network is None else EmpiricalProcess(network))

    def tune(self, data: Data, *, key: KeyArray) -> Any:
        """The network's settings by the marginal likelihood of its process."""
        return self._process.tune(data, key=key, finite=True)

    @property
    def _process(self) -> Any:
        return NTKProcess() if self.process is None else self.process
