"""Tests of the judge: planted controls, pairs judged again, and the judge of another mode."""
