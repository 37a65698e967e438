"""log Z from samples at many levels: Bennett's equation, all levels at once, integration, against plain twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fastbm.inference.tempering import log_ratios
from tests.twins import tempering as slow

BETAS = [0.0, 0.3, 0.9]


def gaussian_levels(n: int, betas: list[float], seed: int = 0) -> np.ndarray:
    """Energies (n, 1, n_betas) whose distribution at beta is exactly normal: mean 5 - 4 beta, variance 4."""
    return np.random.default_rng(seed).normal(5.0 - 4.0 * np.array(betas), 2.0, size=(n, 1, len(betas)))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 40.0])
def test_bennetts_equation_against_its_twin(scale: float) -> None:
    betas, energies = np.array(BETAS) / scale, scale * gaussian_levels(60, BETAS)
    found = log_ratios.bennett(betas, energies)
    expected = slow.bennett_log_z(betas.tolist(), energies[:, 0].T.tolist())
    np.testing.assert_allclose(found.log_z, expected, atol=1e-11)
    assert np.all((found.overlap > 0) & (found.overlap < 1))


def test_what_a_sample_adds_is_what_its_loss_takes_away() -> None:
    betas, energies = np.array(BETAS), gaussian_levels(400, BETAS)
    whole = log_ratios.bennett(betas, energies)
    np.testing.assert_allclose(whole.terms.mean(axis=(0, 1)), 0.0, atol=1e-12)
    ratios = {"bennett": log_ratios.bennett, "ti": log_ratios.integrate}
    for solve in ratios.values():
        all_of_them = solve(betas, energies)
        for n in (0, 7, 133):
            lost = solve(betas, np.delete(energies, n, axis=0)).log_z - all_of_them.log_z
            np.testing.assert_allclose(-399 * lost, all_of_them.terms[n, 0], rtol=0.03, atol=0.03)


def test_terms_of_all_levels_at_once_are_bennetts_for_two() -> None:
    betas, energies = np.array(BETAS[:2]), gaussian_levels(200, BETAS[:2])
    two = log_ratios.bennett(betas, energies)
    np.testing.assert_allclose(log_ratios._terms(betas, energies, two.log_z), two.terms, atol=1e-9)


def test_all_levels_at_once_against_the_twin() -> None:
    pytest.importorskip("pymbar")
    energies = gaussian_levels(40, BETAS)
    found = log_ratios.mbar(np.array(BETAS), energies)
    np.testing.assert_allclose(found.log_z, slow.multistate_log_z(BETAS, energies[:, 0].T.tolist()), atol=1e-7)
    np.testing.assert_allclose(found.terms.mean(axis=(0, 1)), 0.0, atol=1e-6)


def test_hermites_rule_against_its_twin() -> None:
    energies = gaussian_levels(50, BETAS)
    found = log_ratios.integrate(np.array(BETAS), energies)
    np.testing.assert_allclose(found.log_z, slow.hermite_log_z(BETAS, energies[:, 0].T.tolist()), atol=1e-12)


def test_the_discretisation_error_is_of_the_size_of_the_error() -> None:
    """Of two levels at energy 0 and 1, whose cumulants are known: every level gets samples in exact proportion."""
    errors, told = [], []
    for n_betas in (3, 5, 9):
        betas = np.linspace(0, 4, n_betas)
        up = np.rint(1e5 / (1 + np.exp(betas))).astype(int)
        energies = (np.arange(100_000)[:, None] < up).astype(float)[:, None, :]
        found = log_ratios.integrate(betas, energies)
        errors.append(abs(found.log_z[-1] - math.log((1 + math.exp(-4)) / 2)))
        told.append(found.detail["discretisation_error"])
    assert errors[0] > 8 * errors[1] > 30 * errors[2]
    assert all(0.4 * e < t + 1e-6 and t < 4 * e + 1e-6 for e, t in zip(errors, told, strict=True)), (errors, told)


def test_levels_without_a_common_sample_have_an_error_as_wide_as_the_gap() -> None:
    energies = np.stack([np.full((10, 1), 4000.0), np.full((10, 1), 0.0)], axis=-1)
    found = log_ratios.bennett(np.array([0.0, 1.0]), energies)
    assert np.isfinite(found.log_z).all()
    assert found.overlap[0] == 0
    assert found.floor[1] == pytest.approx(2000)
