"""Units of measurement: what they measure, how large they are, and conversion between them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from foretell.core.errors import ParameterError

Dimension = tuple[int, ...]  # exponents of m, kg, s, A, K, mol
NOTHING: Dimension = (0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit measures and how much of the base units it is.

    Parameters
    ----------
    dimension : tuple of int
        Exponents of metre, kilogram, second, ampere, kelvin, mole.
    factor : float
        In base units.
    offset : float
        Zero of the scale in base units; only of temperatures.
    """

    dimension: Dimension
    factor: float
    offset: float = 0.0


def _d(**exponents: int) -> Dimension:
    return tuple(exponents.get(name, 0) for name in ("m", "kg", "s", "A", "K", "mol"))


_LENGTH, _MASS, _TIME = _d(m=1), _d(kg=1), _d(s=1)
_VOLUME, _PRESSURE, _ENERGY = _d(m=3), _d(m=-1, kg=1, s=-2), _d(m=2, kg=1, s=-2)
_POWER, _RATE = _d(m=2, kg=1, s=-3), _d(s=-1)
_VOLT = _d(m=2, kg=1, s=-3, A=-1)

# Names that a metric prefix may stand before: "m" alone is the metre.
_METRIC: dict[str, tuple[Dimension, float]] = {
    "m": (_LENGTH, 1.0), "g": (_MASS, 1e-3), "s": (_TIME, 1.0), "A": (_d(A=1), 1.0),
    "mol": (_d(mol=1), 1.0), "l": (_VOLUME, 1e-3), "L": (_VOLUME, 1e-3), "Hz": (_RATE, 1.0),
    "N": (_d(m=1, kg=1, s=-2), 1.0), "Pa": (_PRESSURE, 1.0), "bar": (_PRESSURE, 1e5),
    "J": (_ENERGY, 1.0), "Wh": (_ENERGY, 3600.0), "W": (_POWER, 1.0), "V": (_VOLT, 1.0),
    "eV": (_ENERGY, 1.602176634e-19),
}  # fmt: skip
_PREFIX = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "c": 1e-2, "d": 1e-1, "h": 1e2,
           "k": 1e3, "M": 1e6, "G": 1e9}  # fmt: skip
_OTHER = {
    "%": Unit(NOTHING, 0.01),
    "t": Unit(_MASS, 1e3),
    "min": Unit(_TIME, 60.0),
    "h": Unit(_TIME, 3600.0),
    "d": Unit(_TIME, 86400.0),
    "week": Unit(_TIME, 604800.0),
    "year": Unit(_TIME, 31557600.0),
    "K": Unit(_d(K=1), 1.0),
    "°C": Unit(_d(K=1), 1.0, 273.15),
    "°F": Unit(_d(K=1), 5 / 9, 459.67 * 5 / 9),
    "rpm": Unit(_RATE, 1 / 60),
    "bpm": Unit(_RATE, 1 / 60),
    "inch": Unit(_LENGTH, 0.0254),
    "ft": Unit(_LENGTH, 0.3048),
    "yd": Unit(_LENGTH, 0.9144),
    "mile": Unit(_LENGTH, 1609.344),
    "lb": Unit(_MASS, 0.45359237),
    "oz": Unit(_MASS, 0.028349523125),
    "gal": Unit(_VOLUME, 3.785411784e-3),
    "psi": Unit(_PRESSURE, 6894.757293168),
    "atm": Unit(_PRESSURE, 101325.0),
    "hp": Unit(_POWER, 745.6998715822702),
    "cal": Unit(_ENERGY, 4.184),
    "kcal": Unit(_ENERGY, 4184.0),
    "mph": Unit(_d(m=1, s=-1), 0.44704),
    "Ω": Unit(_d(m=2, kg=1, s=-3, A=-2), 1.0),
}
_SPELLED = {
    "metre": "m", "meter": "m", "gram": "g", "kilogram": "kg", "kilo": "kg", "second": "s",
    "sec": "s", "millisecond": "ms", "minute": "min", "hour": "h", "hr": "h", "day": "d",
    "weeks": "week", "yr": "year", "a": "year", "kelvin": "K", "celsius": "°C", "degc": "°C",
    "degree celsius": "°C", "degrees celsius": "°C", "degree fahrenheit": "°F",
    "degrees fahrenheit": "°F", "fahrenheit": "°F", "degf": "°F", "litre": "l", "liter": "l",
    "millilitre": "ml", "milliliter": "ml", "percent": "%", "per cent": "%", "volt": "V",
    "ampere": "A", "amp": "A", "watt": "W", "kilowatt": "kW", "joule": "J", "pascal": "Pa",
    "hertz": "Hz", "newton": "N", "kilometre": "km", "kilometer": "km", "centimetre": "cm",
    "centimeter": "cm", "millimetre": "mm", "millimeter": "mm", "mile": "mile", "foot": "ft",
    "feet": "ft", "inches": "inch", "pound": "lb", "ounce": "oz", "gallon": "gal", "ohm": "Ω",
    "ton": "t", "tonne": "t", "mole": "mol", "horsepower": "hp", "kmh": "km/h", "kph": "km/h",
    "lpm": "l/min",
}  # fmt: skip
_POWERED = re.compile(r"(.*?[^\d^²³-])\^?(-?\d|²|³)$")


def unit(name: str) -> Unit:
    """A unit by its sign or its name, with powers and products: ``m3/h``, ``kg*m/s^2``.

    Raises
    ------
    ParameterError
        When it is none.

    Examples
    --------
    >>> unit("l/min").factor * 60, unit("litres") == unit("l")
    (0.001, True)
    """
    total = Unit(NOTHING, 1.0)
    sign = 1
    parts = [part.strip() for part in re.split(r"([*·/])", spelled(name))]
    for part in parts:
        if part in ("*", "·"):
            continue
        if part == "/":
            sign = -1
            continue
        one = _single(part)
        if len(parts) == 1:
            return one
        dimension = tuple(a + sign * b for a, b in zip(total.dimension, one.dimension, strict=True))
        total = Unit(dimension, total.factor * one.factor**sign)
        sign = 1
    return total


def spelled(name: str) -> str:
    """The sign of a unit that may be written in words."""
    plain = re.sub(r"\s+per\s+", "/", " ".join(name.split()))
    return "/".join(_sign(part) for part in plain.split("/"))


def is_unit(name: str) -> bool:
    """Whether this is a unit."""
    try:
        unit(name)
    except ParameterError:
        return False
    return True


def converted(value: float, given: str, wanted: str) -> float:
    """A value in another unit; a ParameterError where they measure different things.

    Examples
    --------
    >>> round(converted(80, "°F", "°C"), 1), converted(90, "s", "min")
    (26.7, 1.5)
    """
    a, b = unit(given), unit(wanted)
    if a.dimension != b.dimension:
        raise ParameterError(
            f"{given} and {wanted} measure different things, so that {value:g} {given} cannot be "
            f"told in {wanted}."
        )
    return (value * a.factor + a.offset - b.offset) / b.factor


def _sign(name: str) -> str:
    plain = name.strip()
    if plain in _OTHER or _metric(plain) is not None:
        return plain
    low = plain.casefold().rstrip(".")
    for form in (low, low.removesuffix("s")):
        if form in _SPELLED:
            return _SPELLED[form]
    return plain


def _single(name: str) -> Unit:
    name = _sign(name)
    power = 1
    found = _POWERED.match(name)
    if found:
        name, digits = _sign(found[1]), found[2]
        power = {"²": 2, "³": 3}.get(digits) or int(digits)
    if name in ("1", ""):
        return Unit(NOTHING, 1.0)
    one = _OTHER.get(name) or _metric(name)
    if one is None:
        raise ParameterError(f"{name!r} is no unit that is known here.")
    if power == 1:
        return one
    return Unit(tuple(power * e for e in one.dimension), math.pow(one.factor, power))


def _metric(name: str) -> Unit | None:
    if name in _METRIC:
        return Unit(*_METRIC[name])
    rest = name[1:]
    if name[:1] in _PREFIX and rest in _METRIC:
        dimension, factor = _METRIC[rest]
        return Unit(dimension, factor * _PREFIX[name[0]])
    return None
