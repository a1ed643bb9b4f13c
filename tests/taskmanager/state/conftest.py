from __future__ import annotations

import pytest
from state_rig import BACKENDS, Keyed


@pytest.fixture(params=list(BACKENDS))
def keyed(request: pytest.FixtureRequest) -> Keyed:
    return Keyed(BACKENDS[request.param])
