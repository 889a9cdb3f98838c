from __future__ import annotations

from tests.codegraph.graph.sources import by_name, exported, kinds, read, taken, uses

SOURCE = """\
    /**
     * @license
     * Copyright someone
     */
    import main, { b as bb, type C } from './x';
    import * as ns from "../y.js";
    import './side';
    import type { D } from 'd';
    export { e, f as ff } from './again';
    export * from './all';

    const g = 1;
    function hidden() {}
    export { g, hidden as shown };

    /** Makes it. Slowly. */
    export const make = async (x: Foo): Promise<Bar> => {
      const inner = () => 1;
      const local = 3;
      return inner();
    };
    export const CONFIG = {
      port: 1,
      run() { go(); },
      stop: () => { halt(); },
    } as const;

    // A shape.
    export interface Shape extends Base, Other<T> {
      area(): number;
      name: string;
    }
    export type Alias<T> = Foo<T> | { a: Bar };
    export enum Color { Red, Green = 'g' }
    namespace Inner { export function f() {} }

    @Injectable({ providedIn: 'root' })
    export class Service extends Base<T> implements Api, ns.Other {
      static count = 0;
      #secret = 1;
      private readonly key: Key = new Key();
      handler = (e: Event) => { this.go(e); };
      constructor(private http: Http) { super(); }
      get value(): number { return 1; }
      private hide() {}
      protected abstract todo(x: Foo): void;
    }

    describe('it', () => {
      const setup = 1;
      const helper = () => load();
      it('loads', async () => { await import('./lazy'); });
    });
    function render() { return { local() {}, also: () => 1 }; }
"""


def test_constants_arrow_functions_types_and_members_are_symbols() -> None:
    assert kinds(read("typescript", SOURCE)) == {
        "g": "constant",
        "hidden": "function",
        "make": "function",
        "make.inner": "function",
        "CONFIG": "constant",
        "CONFIG.run": "method",
        "CONFIG.stop": "method",
        "Shape": "interface",
        "Shape.area": "method",
        "Alias": "type",
        "Color": "enum",
        "Inner": "namespace",
        "Inner.f": "function",
        "Service": "class",
        "Service.count": "field",
        "Service.#secret": "field",
        "Service.key": "field",
        "Service.handler": "method",
        "Service.constructor": "method",
        "Service.value": "method",
        "Service.hide": "method",
        "Service.todo": "method",
        "helper": "function",
        "render": "function",
    }


def test_exported_is_what_an_export_names_or_holds_and_is_not_private() -> None:
    assert exported(read("typescript", SOURCE)) == {
        "g",
        "hidden",
        "make",
        "CONFIG",
        "CONFIG.run",
        "CONFIG.stop",
        "Shape",
        "Shape.area",
        "Alias",
        "Color",
        "Service",
        "Service.count",
        "Service.handler",
        "Service.constructor",
        "Service.value",
        "Service.todo",
    }


def test_signatures_have_the_export_and_leave_bodies_and_decorators_out() -> None:
    symbols = by_name(read("typescript", SOURCE))
    assert symbols["make"].signature == "export const make = async (x: Foo): Promise<Bar>"
    assert symbols["CONFIG"].signature == "export const CONFIG"
    assert symbols["Shape"].signature == "export interface Shape extends Base, Other<T>"
    assert symbols["Alias"].signature == "export type Alias<T> = Foo<T> | { a: Bar }"
    assert symbols["Service"].signature == "export class Service extends Base<T> implements Api, ns.Other"
    assert symbols["Service.key"].signature == "private readonly key: Key = new Key()"


def test_docs_come_from_the_comment_above_and_the_licence_is_none() -> None:
    found = read("typescript", SOURCE)
    symbols = by_name(found)
    assert found.doc == ""
    assert symbols["make"].doc == "Makes it."
    assert symbols["Shape"].doc == "A shape."
    assert symbols["make.inner"].doc == ""


def test_imports_and_reexports_name_their_modules() -> None:
    assert taken(read("typescript", SOURCE)) == [
        ("./x", ("default", "b", "C")),
        ("../y.js", ()),
        ("./side", ()),
        ("d", ("D",)),
        ("./again", ("e", "f")),
        ("./all", ("*",)),
        ("./lazy", ()),
    ]


def test_calls_types_bases_and_decorators_are_told_apart() -> None:
    found = read("typescript", SOURCE)
    assert uses(found, "base") == {"Base", "Other", "Api"}
    assert uses(found, "decorator") == {"Injectable"}
    assert uses(found, "call") >= {"go", "halt", "inner", "Key", "load", "describe"}
    assert uses(found, "type") >= {"Foo", "Bar", "Promise", "Key", "Http"}
    assert "Service" not in uses(found, "type")


def test_components_are_used_by_their_tags_and_html_elements_are_not() -> None:
    found = read("tsx", "export const App = () => <Layout><div/><Menu.Item/></Layout>;\n")
    assert uses(found, "call") == {"Layout", "Item"}
    assert kinds(found) == {"App": "function"}


COMMON_JS = """\
    const fs = require('fs');
    const { a, b: c } = require('./local');
    require('./side');
    // const old = require('./old');

    // Runs.
    function run() {}
    function own() {}
    class A extends B { static x = 1; #p = 2; foo() {} }
    A.prototype.baz = function () { qux(); };
    exports.named = () => 1;
    module.exports = { run, A };
"""


def test_a_commonjs_module_has_requires_and_exports() -> None:
    found = read("javascript", COMMON_JS)
    assert taken(found) == [("fs", ()), ("./local", ("a", "b")), ("./side", ())]
    assert exported(found) == {"run", "A", "A.x", "A.foo", "named"}
    assert kinds(found)["baz"] == "function"
    assert uses(found, "base") == {"B"}
    assert by_name(found)["run"].doc == "Runs."


def test_a_script_without_modules_exports_what_is_at_its_top() -> None:
    assert exported(read("javascript", "function a() { function b() {} }\nvar c = 1;\n")) == {"a", "c"}
