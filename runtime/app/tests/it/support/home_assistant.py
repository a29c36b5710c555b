"""Runs Home Assistant's core with its MQTT integration on a broker, and prints what it makes of what it hears.

    PYTHON home_assistant.py PORT

PYTHON has the packages `homeassistant` and `paho-mqtt`. Every line of output is a JSON object: `ready` once the broker
was reached; `entity`, its `state`, `attributes` and `device` whenever one changes, `state` null when it is gone; `flaw`
where its schema or its log objects to anything. Ends with its standard input.
"""

import asyncio
import importlib
import json
import logging
import sys
import tempfile
import unittest.mock
from pathlib import Path
from types import MappingProxyType

import voluptuous
from homeassistant import bootstrap, config_entries, core, loader
from homeassistant.components import mqtt
from homeassistant.components.mqtt import discovery
from homeassistant.helpers import device_registry, entity_registry


def tell(**line: object) -> None:
    """Prints a line for the test."""
    print(json.dumps(line, default=str), flush=True)


class Objections(logging.Handler):
    """Tells everything that Home Assistant warns of."""

    def emit(self, record: logging.LogRecord) -> None:
        reason = f" ({record.exc_info[1]!r})" if record.exc_info else ""
        tell(flaw=f"{record.name}: {record.getMessage()}{reason}")


def validate(message: mqtt.ReceiveMessage) -> None:
    """Holds a discovery message against its component's schema; the one of settings, which lets no unknown key pass."""
    if not message.payload:
        return
    component = discovery.TOPIC_MATCHER.match(message.topic.removeprefix("homeassistant/")).group("component")
    schema = importlib.import_module(f"homeassistant.components.mqtt.{component}").PLATFORM_SCHEMA_MODERN
    try:
        schema(json.loads(message.payload))
    except voluptuous.Invalid as invalid:
        tell(flaw=f"{message.topic}: {invalid}")


async def start(folder: str, port: int) -> core.HomeAssistant:
    """Home Assistant without its pages, and its MQTT integration as a user would set it up."""
    (Path(folder) / "configuration.yaml").touch()
    hass = core.HomeAssistant(folder)
    loader.async_setup(hass)
    hass.config.skip_pip = True
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    await bootstrap.async_load_base_functionality(hass)
    # Pictures are entities with a page of their own, which nobody looks at here.
    hass.http = unittest.mock.Mock(spec=["register_view"])
    # The integration asks for them, for its settings' page alone.
    hass.config.components.update({"http", "file_upload"})
    hass.bus.async_listen(core.EVENT_STATE_CHANGED, core.callback(lambda event: changed(hass, event)))
    await hass.async_start()
    settings = {"broker": "127.0.0.1", "port": port}
    entry = config_entries.ConfigEntry(
        version=1, minor_version=2, domain="mqtt", title="MQTT", data=settings, source=config_entries.SOURCE_USER,
        options={}, unique_id=None, discovery_keys=MappingProxyType({}), subentries_data=None,
    )
    await hass.config_entries.async_add(entry)
    await mqtt.async_subscribe(hass, "homeassistant/+/+/+/config", core.callback(validate))
    tell(ready=entry.state is config_entries.ConfigEntryState.LOADED)
    return hass


@core.callback
def changed(hass: core.HomeAssistant, event: core.Event) -> None:
    """Tells how an entity is now."""
    name, state = event.data["entity_id"], event.data["new_state"]
    if state is None:
        tell(entity=name, state=None)
        return
    entry = entity_registry.async_get(hass).async_get(name)
    device = entry and device_registry.async_get(hass).async_get(entry.device_id)
    tell(entity=name, state=state.state, attributes=dict(state.attributes), device=device and device.name)


async def main() -> None:
    """Runs until the test has seen enough."""
    logging.getLogger("homeassistant").addHandler(Objections(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder:
        hass = await start(folder, int(sys.argv[1]))
        await asyncio.to_thread(sys.stdin.read)
        await hass.async_stop()


asyncio.run(main())
