"""Batch mode: operators get their records in another order than that of arrival."""
