"""Strict models of every YAML file: an unknown key is an error that names the nearest valid one."""

from evolora_core.config.ecology import EcologyConfig
from evolora_core.config.rivals import EsConfig, GrpoConfig, SftConfig
from evolora_core.config.strict import Strict, config_hash, load_yaml
from evolora_core.config.suite import DataConfig, DecodingConfig, Routing, SuiteConfig, load_suite

__all__ = [
    "DataConfig",
    "DecodingConfig",
    "EcologyConfig",
    "EsConfig",
    "GrpoConfig",
    "Routing",
    "SftConfig",
    "Strict",
    "SuiteConfig",
    "config_hash",
    "load_suite",
    "load_yaml",
]
