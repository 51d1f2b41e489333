"""The slash commands of all objects that the program builds."""

from ollim_bot.app import build
from ollim_bot.kernel.values.commands import commands_of

COMMANDS = commands_of(*(each for each in vars(build).values() if isinstance(each, type)))
