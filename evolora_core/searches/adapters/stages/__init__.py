"""The stages that the arms of an adapter search share: data, prices, tuning, evaluation."""
