"""Robot pushing: where hands start and how they move, so that objects end near their goals.

Two hands and two objects in 14-D (EBO: Wang et al. 2018), one of each in 3-D and 4-D (MES: Wang and
Jegelka 2017), and the 3-D and 4-D problems of the paper ts-rsr, 6.3. The world is seen from above:
objects and hands slide on a table, to which friction joints hold them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator

from augury.bench.box2d import box2d
from augury.bench.problem import Factory, Params, Problem
from augury.space import Float, Space

Point = tuple[float, float]

STEP = 0.01  # seconds
ITERATIONS = 10  # of Box2D's solver, for velocities and for positions
COAST = 100  # steps after the last driven one
GAIN = 30.0  # of a hand's controller, for its velocity and its spin


@dataclass(frozen=True)
class Thing:
    """An object to push: a disc, or the rectangle with the given half-extents."""

    start: Point
    radius: float = 1.0
    half: Point | None = None


@dataclass(frozen=True)
class Push:
    """A hand, the rectangle with half-extents `half`, and the velocity it is driven to for a time."""

    start: Point
    angle: float
    half: Point
    velocity: Point
    time: float
    spin: float = 0.0

    @property
    def steps(self) -> int:
        """For how many steps it is driven; a unit of time is ten of them."""
        return int(10 * self.time)


def push(engine: Any, things: Sequence[Thing], hands: Sequence[Push]) -> list[Point]:
    """Where the things end; `engine` is the package Box2D."""
    world = engine.b2World(gravity=(0, 0), doSleep=True)
    # Bodies that a joint connects do not collide, so the table carries all and touches none.
    table = world.CreateStaticBody(shapes=engine.b2PolygonShape(box=(500, 500)))

    def place(position: Point, angle: float, shape: Any, hold: float, **surface: float) -> Any:
        body = world.CreateDynamicBody(position=position, angle=angle)
        body.CreateFixture(shape=shape, **surface)
        world.CreateFrictionJoint(bodyA=table, bodyB=body, maxForce=hold, maxTorque=2)
        return body

    objects = [place(t.start, 0.0, _shape(engine, t), 5, density=0.05, friction=0.01) for t in things]
    robots = [
        place(h.start, h.angle, engine.b2PolygonShape(box=h.half), 2, density=0.1, friction=0.1)
        for h in hands
    ]
    for step in range(max(hand.steps for hand in hands) + COAST):
        for robot, hand in zip(robots, hands, strict=True):
            if step < hand.steps:
                _drive(robot, hand)
        world.Step(STEP, ITERATIONS, ITERATIONS)
    return [(body.position[0], body.position[1]) for body in objects]


def _shape(engine: Any, thing: Thing) -> Any:
    if thing.half is None:
        return engine.b2CircleShape(radius=thing.radius)
    return engine.b2PolygonShape(box=thing.half)


def _drive(robot: Any, hand: Push) -> None:
    """Accelerate a hand towards the velocity and the spin it should have."""
    robot.ApplyTorque(robot.mass * (hand.spin - robot.angularVelocity) * GAIN, wake=True)
    missing = [want - have for want, have in zip(hand.velocity, robot.linearVelocity, strict=True)]
    robot.ApplyForce([robot.mass * v * GAIN for v in missing], robot.position, wake=True)


def _jolt(velocity: Point, scale: float, rng: Generator | None) -> Point:
    """A velocity with Gaussian noise on both components; itself without a generator."""
    if rng is None:
        return velocity
    dx, dy = rng.normal(0.0, scale, 2).tolist()
    return velocity[0] + dx, velocity[1] + dy


# Two hands and two objects

SQUARE, DISC = Thing((0.0, 2.0), half=(0.5, 0.5)), Thing((0.0, -2.0))
SQUARE_GOAL, DISC_GOAL = (4.0, 3.5), (-4.0, 3.5)
START_DISTANCE = math.dist(SQUARE.start, SQUARE_GOAL) + math.dist(DISC.start, DISC_GOAL)


def _hand_axes(hand: int) -> dict[str, Float]:
    return {
        f"x{hand}": Float(-5.0, 5.0),
        f"y{hand}": Float(-5.0, 5.0),
        f"vx{hand}": Float(-10.0, 10.0),
        f"vy{hand}": Float(-10.0, 10.0),
        f"t{hand}": Float(2.0, 30.0),
        f"angle{hand}": Float(0.0, 2 * math.pi),
    }


def two_hands(seed: int) -> Problem:
    """How much nearer to their goals two hands bring a square and a disc."""
    engine = box2d("robot-push-14")

    def hand(i: int, p: Params, rng: Generator | None) -> Push:
        velocity = _jolt((p[f"vx{i}"], p[f"vy{i}"]), 0.01, rng)
        start = (p[f"x{i}"], p[f"y{i}"])
        return Push(start, p[f"angle{i}"], (1.0, 0.3), velocity, p[f"t{i}"], p[f"spin{i}"])

    def score(params: Params, rng: Generator | None = None) -> float:
        hands = [hand(i, params, rng) for i in (1, 2)]
        square, disc = push(engine, (SQUARE, DISC), hands)
        return START_DISTANCE - math.dist(square, SQUARE_GOAL) - math.dist(disc, DISC_GOAL)

    spins = {"spin1": Float(-5.0, 5.0), "spin2": Float(-5.0, 5.0)}
    return Problem(
        "robot-push-14",
        Space(_hand_axes(1) | _hand_axes(2) | spins),
        score,
        reference="EBO (Wang, Gehring, Kohli, Jegelka 2018); sto-bnts 5.3; neural-bo 7.2.3",
        budget=500,  # the iterations of sto-bnts; neural-bo has 6000
        direction="maximize",
        optimum=START_DISTANCE,  # both objects on their goals: a bound
        exact=False,
        observe=score,
        noise="N(0, 0.01²) on each velocity",
        packages=("Box2D",),
    )


# One hand and one disc

# The goals of the ten runs of ts-rsr, as its code draws them, to four decimals.
TSRSR_GOALS_3D = (
    (0.4881, 2.1519), (1.0276, 0.4488), (-0.7635, 1.4589), (-0.6241, 3.9177), (4.6366, -1.1656),
    (2.9173, 0.2889), (0.6804, 4.256), (-4.2896, -4.1287), (-4.7978, 3.3262), (2.7816, 3.7001),
)  # fmt: skip
TSRSR_GOALS_4D = (
    (2.7562, 0.0205), (2.4258, 3.1759), (2.5414, 3.6978), (0.1099, -1.1685), (4.8142, 4.1295),
    (3.998, 3.4775), (-4.0205, -0.923), (-2.8582, -4.6633), (0.1886, 2.2925), (-1.8874, -0.6841),
)  # fmt: skip


@dataclass(frozen=True)
class OneHand:
    """A problem of one hand, which moves towards the disc; its value is `best` minus the distance.

    Args:
        angles: the range of the hand's angle, from 0 to this; None for a hand that faces the disc.
        speed: of the hand.
        best: the value of a disc on its goal, a bound on all others.
        goals: those of the seeds 0, 1, ...; of further seeds they are drawn uniformly.
        reference: where it is defined.
        budget: the default number of evaluations.
    """

    angles: float | None
    speed: float
    best: float
    goals: tuple[Point, ...]
    reference: str
    budget: int


MES = "MES (Wang and Jegelka 2017)"
ONE_HAND = {
    "robot-push-3": OneHand(None, 5.0, 5.0, (), MES, 200),
    "robot-push-4": OneHand(2 * math.pi, 10.0, 5.0, (), MES, 200),
    # 15 initial points and 30 batches of 5. The paper takes MES's problems; its code, in 4-D, halves
    # the speed and the range of the angle.
    "robot-push-3-tsrsr": OneHand(None, 5.0, 0.0, TSRSR_GOALS_3D, "ts-rsr 6.3, paper and code", 165),
    "robot-push-4-tsrsr": OneHand(2 * math.pi, 10.0, 0.0, TSRSR_GOALS_4D, "ts-rsr 6.3, paper", 165),
    "robot-push-4-tsrsr-code": OneHand(math.pi, 5.0, 0.0, TSRSR_GOALS_4D, "ts-rsr 6.3, code", 165),
}


def goal(variant: OneHand, seed: int) -> Point:
    """Where the disc should end in the run of a seed."""
    if seed < len(variant.goals):
        return variant.goals[seed]
    x, y = np.random.default_rng(seed).uniform(-5.0, 5.0, 2).tolist()
    return x, y


def towards_disc(params: Params, speed: float, rng: Generator | None = None) -> Push:
    """The push from (x, y) towards a disc at the origin; it stands still at the origin itself."""
    x, y = params["x"], params["y"]
    distance = math.hypot(x, y) or 1.0
    velocity = _jolt((-speed * x / distance, -speed * y / distance), 0.1, rng)
    facing = math.atan(y / x) if x else math.pi / 2
    return Push((x, y), params.get("angle", facing), (0.3, 1.0), velocity, params["t"])


def _one_hand(name: str, variant: OneHand) -> Factory:
    def build(seed: int) -> Problem:
        engine, target = box2d(name), goal(variant, seed)

        def score(params: Params, rng: Generator | None = None) -> float:
            (end,) = push(engine, [Thing((0.0, 0.0))], [towards_disc(params, variant.speed, rng)])
            return variant.best - math.dist(end, target)

        axes = {"x": Float(-5.0, 5.0), "y": Float(-5.0, 5.0), "t": Float(1.0, 30.0)}
        if variant.angles is not None:
            axes["angle"] = Float(0.0, variant.angles)
        return Problem(
            name,
            Space(axes),
            score,
            variant.reference,
            variant.budget,
            direction="maximize",
            optimum=variant.best,
            exact=False,
            observe=score,
            noise="N(0, 0.1²) on each velocity",
            packages=("Box2D",),
        )

    return build


PROBLEMS: Mapping[str, Factory] = MappingProxyType(
    {"robot-push-14": two_hands} | {name: _one_hand(name, row) for name, row in ONE_HAND.items()}
)
