"""The style sheet of the few Textual widgets in use (inputs, buttons, dialogs). All else paints itself."""

from __future__ import annotations

BASE_SHEET = """
Screen { layout: vertical; background: $background; }
#doorstep { padding: 0 1; text-style: bold; }
"""
"""The app's own, parsed before the first frame: as little as possible."""

SHEET = """
ModalScreen { align: center middle; background: $background 60%; }
Toast { background: $panel; }

.dialog {
    width: 76; max-width: 96%; height: auto; max-height: 90%;
    border: round $primary; background: $background; padding: 1 2;
}
.dialog-title { text-style: bold; width: 1fr; height: auto; margin-bottom: 1; }
.dialog-text { width: 1fr; height: auto; max-height: 50vh; overflow-y: auto; }
.dialog-error { width: 1fr; height: auto; color: $error; }
.dialog-buttons { height: 1; width: 1fr; margin-top: 1; align-horizontal: right; }
.dialog-buttons Button { margin-left: 2; min-width: 12; }
Button.-textual-compact { padding: 0 2; background: $panel; }
Button.-textual-compact:focus { background: $primary; color: $background; text-style: bold; }
.-plain Button.-textual-compact:focus { text-style: bold reverse; }
.dialog.-danger { border: round $error; }
.dialog.-wide { width: 100; }
.dialog.-tall { height: 90%; }
.dialog.-form { max-height: 100%; }
.-form .dialog-error { display: none; }
.-form .dialog-error.-shown { display: block; }
.dialog-fields { width: 1fr; height: auto; scrollbar-size-vertical: 1; }
#settings { width: 1fr; height: auto; }
#settings .label { width: 19; }
#settings .field-error { padding-left: 19; }
.dialog-help.-short { height: auto; padding-top: 0; margin-top: 1; }
.dialog-heading { width: 1fr; height: 2; padding-top: 1; text-style: bold; }
.dialog-help { width: 1fr; height: 4; padding-top: 1; color: $secondary; }
.-low .dialog { padding: 0 1; }
.-low .dialog-title { margin-bottom: 0; }
.-low .dialog-help { height: 2; padding-top: 0; }
.-low .dialog-heading { height: 1; padding-top: 0; }
.-low .dialog-buttons { margin-top: 0; }
.-low .dialog-buttons Button { margin-left: 1; padding: 0; min-width: 0; }
.dialog.-bare { border: none; padding: 0; }

#prompt { height: 1; display: none; background: $panel; }
#prompt.-shown { display: block; }
#prompt Static { width: auto; padding: 0 1; background: $panel; color: $primary; text-style: bold; }
#prompt Input { width: 1fr; }
#prompt .hint { color: $secondary; text-style: none; }
Input.-textual-compact { background: $panel; padding: 0 1; }
Input.-textual-compact:focus { background: $boost; }

HomeScreen #runs { height: 3fr; }
HomeScreen #saved { height: 2fr; min-height: 6; }
HomeScreen #profiles { width: 1fr; }
HomeScreen #pools { width: 1fr; }
HomeScreen #detail { height: 2; }
HomeScreen.-low #detail { display: none; }
HomeScreen.-low #runs { height: 1fr; min-height: 4; }
HomeScreen.-low #saved { height: 1fr; min-height: 4; }

RunScreen #cause { height: auto; display: none; }
RunScreen #cause.-shown { display: block; }
RunScreen #main { layout: horizontal; height: 1fr; }
RunScreen #side { width: 40%; min-width: 44; max-width: 72; height: 1fr; }
RunScreen #grid { height: 2fr; min-height: 5; }
RunScreen #nodes { height: 8; min-height: 4; }
RunScreen #events { height: 1fr; min-height: 4; }
RunScreen #board { width: 1fr; height: 1fr; }
RunScreen #tabs { display: none; height: 1; }
RunScreen.-full #side { display: none; }
RunScreen.-grid #side { width: 1fr; max-width: 100%; height: 1fr; }
RunScreen.-grid #board { display: none; }
RunScreen.-grid #nodes { display: none; }
RunScreen.-grid #events { display: none; }
RunScreen.-grid #tabs { display: none; }
RunScreen.-narrow #main { layout: vertical; }
RunScreen.-narrow #tabs { display: block; }
RunScreen.-narrow #side { width: 1fr; max-width: 100%; height: auto; }
RunScreen.-narrow #grid { height: 5; min-height: 5; }
RunScreen.-narrow #nodes { display: none; }
RunScreen.-narrow #events { display: none; }
RunScreen.-narrow.-tab-nodes #nodes { display: block; height: 1fr; }
RunScreen.-narrow.-tab-nodes #board { display: none; }
RunScreen.-narrow.-tab-nodes #side { height: 1fr; }
RunScreen.-narrow.-tab-events #events { display: block; height: 1fr; }
RunScreen.-narrow.-tab-events #board { display: none; }
RunScreen.-narrow.-tab-events #side { height: 1fr; }

ComposerScreen #main { layout: horizontal; height: 1fr; }
ComposerScreen #form { width: 46; height: 1fr; border: round $panel-lighten-2; padding: 0 1; }
ComposerScreen #form { overflow-y: auto; scrollbar-size-vertical: 1; }
ComposerScreen #form:focus-within { border: round $primary; }
ComposerScreen #preview { width: 1fr; height: 1fr; }
ComposerScreen.-narrow #main { layout: vertical; }
ComposerScreen.-narrow #form { width: 1fr; height: 10; }
ComposerScreen.-narrow.-low #form { height: 3; }
ComposerScreen.-narrow.-low #form:focus-within { height: 5; }

PreflightScreen #main { layout: horizontal; height: 1fr; }
PreflightScreen #progress { width: 1fr; height: 1fr; }
PreflightScreen #matrix { width: 1fr; height: 1fr; display: none; }
PreflightScreen #finding { width: 38%; min-width: 46; height: 1fr; display: none; }
PreflightScreen.-told #progress { display: none; }
PreflightScreen.-told #matrix { display: block; }
PreflightScreen.-told #finding { display: block; }
PreflightScreen.-narrow #main { layout: vertical; }
PreflightScreen.-narrow #finding { width: 1fr; min-width: 0; }
PreflightScreen.-low #finding { display: none; }
PreflightScreen.-low.-reading #finding { display: block; }
PreflightScreen.-low.-reading #matrix { display: none; }

.field { height: 1; width: 1fr; }
.field .label { width: 14; color: $secondary; }
.field Input { width: 1fr; }
.field-note { width: 1fr; height: auto; color: $accent; padding-left: 15; display: none; }
.field-note.-shown { display: block; }
.field-error { width: 1fr; height: auto; color: $error; padding-left: 14; display: none; }
.field-error.-shown { display: block; }
Choice { width: 1fr; height: 1; }
"""
"""Loaded after the first frame; dialogs and all screens use it."""
