"""Pages for operators, on the admin listener: what the operator API answers, as HTML.

To add a page:

1. Write a template below `templates/`. It begins with `{% extends "layout.html" %}` and fills the
   blocks `title` (the text of the one `h1` too) and `content`. Text that an agent, a tool or a page
   wrote is drawn with `{{ text | shown }}`, inside `<pre>` or a cell, never in an attribute.
   A table has a `<caption>`, and `scope` on its headers. Addresses are written
   `{{ url("/memory") }}`; `{{ moment(ms) }}` and `{{ age(ms) }}` draw times.
2. Write a handler `async def held(call: PageCall) -> Shown` beside the other handlers, in a module
   with one subject. It gets all data by `await call.ask(ROW, argument, field=value)`, which is the
   call of the operator API with the same scope of key. `call.argument` is the variable segment of
   the path, `call.query` the query, `call.filled(SHAPE)` the form as a struct.
3. Add a `Page` to the module's tuple `PAGES`, with its rows of the API (`twins`) and its commands;
   `proxy/console/registry.py` names the modules. `nav` puts the page into the navigation.

A form is `<form method="post" action="{{ url(path) }}">{{ token(path) }} ... </form>`: `token` is
the hidden field without which a POST is refused. With `destroys=True` the form has a field `key`
too (`{% include "key.html" %}`), and the operator's key is asked for again. A POST handler
returns a `Shown`, such as `Shown("done.html", {"title": "Hidden", "sentences": ("...",),
"onward": (("/memory", "All memories"),)})`; the console stores it, and answers 303 to the address
where it is read.
"""
