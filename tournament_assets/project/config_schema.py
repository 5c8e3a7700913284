"""The JSON Schema of a config, by which editors complete and check it, and what its keys mean.

It refuses whatever a key alone shows: unknown and missing keys, types, names and limits. What only
several keys or files show, `config_files.py` refuses.
"""

import inspect
import json
import re
from collections.abc import Mapping

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tournament_assets.foundation.extensions import added_rows
from tournament_assets.tournament.config import EVERY_TOURNAMENT_HAS, TournamentConfig
from tournament_assets.tournament.judge_services import SERVICES, JudgeService
from tournament_assets.tournament.judges import NOT_OF_ALL, Judge
from tournament_assets.tournament.places import ServerAddress

SCHEMA_FILE = "tournament.schema.json"
"""What `tournament init` calls it, beside the config that names it."""

_TEXT = {"type": "string"}


class _ConfigSchema(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return a model's schema with its meanings, and with what its validators refuse."""
        model, made = schema["cls"], super().model_schema(schema)
        rows = (*added_rows("config_keys"), *added_rows("mode_keys"))
        added = {key for keys in rows if issubclass(model, keys) for key in keys.model_fields}
        keys = dict(sorted(made["properties"].items(), key=lambda item: item[0] in added))
        made["properties"] = keys
        made["description"] = (inspect.getdoc(model) or "").split("\n\n")[0].replace("\n", " ")
        for name, meaning in _meanings(model).items():
            keys.get(name, {})["description"] = meaning
        if ways := getattr(model, "ways", ()):
            made["oneOf"] = [{"required": [way], "properties": {way: _TEXT}} for way in ways]
        if model is Judge:
            made["allOf"] = [_rule_of(row) for row in SERVICES.values()]
        if model is TournamentConfig:
            keys["modes"]["required"] = [*EVERY_TOURNAMENT_HAS]
            keys["entrants"]["minItems"] = 2
        return {"anyOf": [_TEXT, made]} if model is ServerAddress else made

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Return a union's schema, in which the tag alone decides which class is meant."""
        union = super().tagged_union_schema(schema)["discriminator"]
        key, classes = union["propertyName"], union["mapping"]
        return {
            "type": "object",
            "required": [key],
            "properties": {key: {"enum": [*classes]}},
            "allOf": [
                {"if": {"properties": {key: {"const": tag}}}, "then": {"$ref": reference}}
                for tag, reference in classes.items()
            ],
        }

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Return a mapping's schema, in which keys of another form are refused."""
        made = super().dict_schema(schema)
        return {**made, "additionalProperties": False} if "patternProperties" in made else made

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        r"""Return a text's schema, with letters of any script, which editors' `\w` lacks."""
        made = super().str_schema(schema)
        if "pattern" in made:
            any_script = "[\x80-\U0010ffff\\1\\2]"
            made["pattern"] = re.sub(r"\[([^\]]*\\w[^\]]*)\]|(\\w)", any_script, made["pattern"])
        return made


def _rule_of(service: JudgeService) -> JsonSchemaValue:
    """Return what holds of a judge of a service: how its model is called, and what it takes."""
    refused = {name: {"type": "null"} for name in NOT_OF_ALL if name not in service.settings}
    return {
        "if": {"properties": {"service": {"const": service.name}}},
        "then": {"properties": {"model": {"pattern": f"^{service.model_prefix}"}, **refused}},
    }


def write_schema() -> str:
    """Return the JSON Schema of a config with all extras and extensions that are installed."""
    schema = TournamentConfig.model_json_schema(schema_generator=_ConfigSchema)
    return json.dumps({"$schema": _ConfigSchema.schema_dialect, **schema}, indent=1) + "\n"


def models_below(root: type[BaseModel]) -> dict[str, JsonSchemaValue]:
    """Return the schemas of a model and of all models in its keys, by name."""
    schema = root.model_json_schema(schema_generator=_ConfigSchema)
    models = {root.__name__: schema, **schema["$defs"]}
    objects = {name: model.get("anyOf", [model])[-1] for name, model in models.items()}
    return {name: model for name, model in objects.items() if "properties" in model}


def _meanings(model: type[BaseModel]) -> Mapping[str, str]:
    """Read what the docstrings of a model and its bases say under Attributes."""
    meanings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel):
            continue
        _, _, attributes = (inspect.cleandoc(base.__doc__ or "")).partition("Attributes:\n")
        for match in re.finditer(
            r"^    (\w+): (.*(?:\n(?:      .*|$))*)", attributes, flags=re.MULTILINE
        ):
            meanings[match[1]] = " ".join(match[2].split())
    return meanings
