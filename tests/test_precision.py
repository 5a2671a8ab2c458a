import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from augury._errors import UnsupportedError
from augury.core import precision
from augury.core.data import Data
from augury.core.keys import Purpose, fold, generator, root_key
from augury.core.precision import computing, is_traced, side_by_side
from augury.optimizer import Optimizer
from augury.space import Float, Space
from augury.surrogates import FourierProcess, GaussianProcess

GP = GaussianProcess(lengthscale=0.5, variance=1.0, noise=1e-2, standardize=False, features=64)
X = np.random.default_rng(0).random((10, 3))
DATA = Data.of(X, np.sin(5 * X[:, 0]))
ROWS = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]


@pytest.fixture(scope="module", params=[GP, FourierProcess(GP, features=64)], ids=["gp", "rff"])
def posterior(request):
    return request.param.fit(DATA, key=root_key(0)).posterior


def settings():
    return jax.config.jax_enable_x64, jax.config.jax_default_device, jnp.zeros(1).dtype


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


# The user's settings


def test_inside_it_is_double_on_the_cpu_and_outside_nothing_has_changed():
    before = settings()
    assert before[2] == np.float32  # the flag is off in these tests
    with computing():
        assert jnp.zeros(1).dtype == np.float64
        assert jnp.zeros(1).devices() == {jax.devices("cpu")[0]}
        with computing():
            assert jnp.zeros(1).dtype == np.float64
        assert jnp.zeros(1).dtype == np.float64  # an inner context does not end the outer one
    assert settings() == before


def test_a_users_stricter_settings_are_for_the_users_code():
    strict = jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict")
    with strict[0], strict[1]:
        mean = GP.fit(DATA, key=root_key(0)).posterior.mean(X)
        with pytest.raises(ValueError, match="rank_promotion"):
            jnp.zeros((2, 3)) + jnp.zeros(3)
    np.testing.assert_allclose(mean, GP.fit(DATA, key=root_key(0)).posterior.mean(X))


def test_nothing_has_changed_after_an_exception():
    before, threads = settings(), blas_threads()
    with pytest.raises(KeyError), computing(), computing(single_thread=False):
        raise KeyError
    assert settings() == before
    assert blas_threads() == threads
    with computing():  # and it can be entered again
        assert jnp.zeros(1).dtype == np.float64
    assert settings() == before


def test_nothing_has_changed_after_a_fit_and_its_use(posterior):
    before, threads = settings(), blas_threads()
    posterior.predict(ROWS)
    posterior.condition(ROWS).sample(key=root_key(1))(ROWS)
    assert settings() == before
    assert blas_threads() == threads


def test_a_user_who_has_switched_doubles_on_keeps_them():
    with jax.enable_x64(True):
        with computing():
            pass
        assert jnp.zeros(1).dtype == np.float64


def test_a_device_that_is_not_there():
    try:
        jax.devices("gpu")
    except RuntimeError:
        with (
            pytest.raises(UnsupportedError, match="one that JAX can use here; got 'gpu'"),
            computing("gpu"),
        ):
            pass
    else:
        pytest.skip("there is a GPU")


# Threads


def test_blas_has_one_thread_inside_unless_more_are_asked_for():
    found = blas_threads()
    with computing():
        assert set(blas_threads()) == {1}
        with computing(single_thread=False):
            assert blas_threads() == found
        assert set(blas_threads()) == {1}
    assert blas_threads() == found


def test_a_limit_of_the_users_is_kept():
    with threadpool_limits(1, user_api="blas"):
        with computing(single_thread=False):
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}


def test_contexts_of_two_threads_that_overlap_leave_the_process_as_it_was():
    found = blas_threads()
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def first():
        with computing():
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        first_in.wait(10)
        with computing():
            second_in.set()
            first_out.wait(10)
            seen.append(jnp.zeros(1).dtype)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [np.float64]  # the other thread's exit did not end this one's context
    assert blas_threads() == found


# The compilation cache


def use_cache(monkeypatch, **options):
    """What `_use_compilation_cache` changes, for a process with these options."""
    config = SimpleNamespace(jax_compilation_cache_dir=None, jax_enable_compilation_cache=True)
    vars(config).update(options)
    changes = {}
    config.update = changes.__setitem__
    monkeypatch.setattr(precision, "jax", SimpleNamespace(config=config))
    precision._use_compilation_cache.__wrapped__()
    return changes


def test_a_configured_cache_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert use_cache(monkeypatch, jax_compilation_cache_dir="/somewhere") == {}
    assert use_cache(monkeypatch, jax_enable_compilation_cache=False) == {}
    assert list(tmp_path.iterdir()) == []


def test_without_one_it_is_a_private_folder_among_the_users_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    changes = use_cache(monkeypatch)
    folder = tmp_path / "augury" / "xla"
    assert changes.pop("jax_compilation_cache_dir") == str(folder)
    assert changes == {"jax_persistent_cache_min_compile_time_secs": 0.0}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_place_for_it_there_is_none(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert use_cache(monkeypatch) == {}

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(precision.pathlib.Path, "home", no_home)
    assert use_cache(monkeypatch) == {}


def test_the_options_exist():
    with computing():
        assert jax.config.jax_compilation_cache_dir is not None
    jax.config.jax_persistent_cache_min_compile_time_secs  # noqa: B018 - raises if it has gone


# Parts used alone, with the flag off


KINDS = {
    "list": lambda rows: rows,
    "tuple": lambda rows: tuple(map(tuple, rows)),
    "float32": lambda rows: np.asarray(rows, dtype=np.float32),
    "jax": jnp.asarray,
}


def assert_double(result, shape):
    assert type(result) is np.ndarray
    assert result.dtype == np.float64
    assert result.shape == shape
    assert np.isfinite(result).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_takes_ordinary_arrays_and_returns_numpy_doubles(posterior, kind):
    rows = KINDS[kind](ROWS)
    path = posterior.sample(key=root_key(1))
    for method in (posterior.mean, posterior.var, path):
        assert_double(method(rows), (2,))
        assert_double(method(rows[0]), ())
    for result in posterior.predict(rows):
        assert_double(result, (2,))
    mean, covariance = posterior.joint(rows)
    assert_double(mean, (2,))
    assert_double(covariance, (2, 2))
    for conditioned in (posterior.condition(rows), posterior.condition(rows, [1.0, 2.0])):
        assert_double(conditioned.mean(rows), (2,))
    if hasattr(posterior, "sample_at"):
        assert_double(posterior.sample_at(rows, 3, key=root_key(2)), (3, 2))
    for number in (posterior.incumbent(), posterior.information_gain(), posterior.noise_std):
        assert type(number) is float
        assert np.isfinite(number)


def test_single_points_and_rows_agree_beyond_single_precision(posterior):
    path = posterior.sample(key=root_key(1))
    for method in (posterior.mean, posterior.var, path):
        alone = [method(row) for row in ROWS]
        np.testing.assert_allclose(alone, method(np.array(ROWS)), rtol=1e-12)


def test_a_path_can_be_differentiated_inside_a_context(posterior):
    path = posterior.sample(key=root_key(1))
    x = np.array(ROWS[0])
    with computing():
        gradient = jax.jit(jax.grad(path))(x)
        assert gradient.dtype == np.float64
    step = 1e-6
    differences = [(path(x + e) - path(x - e)) / (2 * step) for e in step * np.eye(3)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-8)


def test_tracers_are_recognized():
    seen = []
    jax.make_jaxpr(lambda x: seen.append(is_traced({"a": [x]})) or x)(1.0)
    assert seen == [True]
    assert not is_traced(np.ones(3), [1.0, "text"])


# Keys


def test_keys_are_functions_of_their_numbers():
    key = root_key(7)

    def bits(k):
        return np.asarray(jax.random.key_data(k)).tolist()

    assert bits(root_key(7)) == bits(key) != bits(root_key(8))
    assert bits(fold(key, 1, 2)) == bits(fold(fold(key, 1), 2)) != bits(fold(key, 2, 1))
    assert len({tuple(bits(fold(key, purpose))) for purpose in Purpose}) == len(Purpose)
    same = [generator(fold(key, 3)).random() for _ in range(2)]
    assert same[0] == same[1]


def test_keys_do_not_depend_on_the_users_flag():
    with jax.enable_x64(True):
        doubled = generator(fold(root_key(7), 1)).random()
    assert doubled == generator(fold(root_key(7), 1)).random()


def test_side_by_side_is_in_order_in_double_and_raises_what_is_raised(monkeypatch):
    before, used = settings(), set()
    monkeypatch.setattr(precision.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    barrier = threading.Barrier(2, timeout=30)

    def compute(i):
        barrier.wait()  # passes only if two compute at the same time
        used.add(threading.get_ident())
        return i, jnp.zeros(1).dtype

    assert side_by_side(compute, 4) == [(i, np.float64) for i in range(4)]
    assert len(used) == 2
    assert settings() == before
    assert side_by_side(lambda i: i, 0) == []
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda i: 1 / (i - 1), 3)


def test_products_in_single_precision_are_that_on_a_gpu_too(monkeypatch):
    monkeypatch.setattr(precision, "_device", lambda name: jax.devices("cpu")[0])
    for device, inside in (("cpu", None), ("gpu", "float32")):
        with computing(device):
            assert jax.config.jax_default_matmul_precision == inside
        assert jax.config.jax_default_matmul_precision is None


# Compiled programs


def test_too_many_programs_are_forgotten_and_suggestions_stay_the_same(monkeypatch):
    forgotten, forget = [], jax.clear_caches

    def note_and_forget():
        forgotten.append(precision._programs)
        forget()

    def suggestions():
        optimizer = Optimizer(Space(a=Float(0, 1), b=Float(0, 1)), seed=3, initial=3)
        for _ in range(8):
            trial = optimizer.ask()
            optimizer.tell(trial, trial.params["a"] ** 2 + trial.params["b"])
        return [trial.params for trial in optimizer.trials]

    forget()
    monkeypatch.setattr(jax, "clear_caches", note_and_forget)
    monkeypatch.setattr(precision, "_programs", 0)
    before = suggestions()
    assert forgotten == []
    monkeypatch.setattr(precision, "MOST_PROGRAMS", 2)
    assert suggestions() == before
    assert len(forgotten) >= 2  # those that came after the first time are counted and forgotten, too
    assert min(forgotten) > 2
