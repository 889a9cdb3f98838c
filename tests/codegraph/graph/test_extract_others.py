from __future__ import annotations

from tests.codegraph.graph.sources import by_name, exported, kinds, read, taken, uses

GO = """\
    // Package shop sells. Daily.
    package shop

    import (
    \t"fmt"
    \tx "github.com/a/b"
    )

    // Max is the most.
    const Max = 3
    var cache, other = 1, 2

    type Point struct {
    \tX int
    \tname string
    \t*Base
    }
    type Shape interface { Area() float64 }
    type ID = string

    // New makes one.
    func New(a int) (*Point, error) {
    \tvar local = 3
    \trun(func() { go work(a) })
    \treturn nil, fmt.Errorf("x")
    }
    func (p *Point) Move(dx int) {}
    func (l List[T]) size() int { return 0 }
"""


def test_go_exports_capitals_and_names_methods_by_their_receiver() -> None:
    found = read("go", GO)
    assert kinds(found) == {
        "Max": "constant",
        "cache": "variable",
        "Point": "struct",
        "Point.X": "field",
        "Point.name": "field",
        "Shape": "interface",
        "Shape.Area": "method",
        "ID": "type",
        "New": "function",
        "Point.Move": "method",
        "List.size": "method",
    }
    assert exported(found) == {"Max", "Point", "Point.X", "Shape", "Shape.Area", "ID", "New", "Point.Move"}
    assert found.doc == "Package shop sells."
    assert by_name(found)["New"].doc == "New makes one."
    assert by_name(found)["Point"].signature == "type Point struct"
    assert taken(found) == [("fmt", ()), ("github.com/a/b", ())]
    assert uses(found, "base") == {"Base"}
    assert uses(found, "call") == {"run", "work", "Errorf"}


RUST = """\
    //! Points.
    use std::collections::{HashMap, hash_map::{Entry, self}};
    use crate::a::b as c;
    use super::*;
    mod sub;

    /// A point.
    #[derive(Debug)]
    pub struct Point<T> { pub x: T, y: i32 }
    pub trait Shape: Base { fn area(&self) -> f64; }
    impl<T> Shape for geo::Point<T> { fn area(&self) -> f64 { helper(1) } }
    impl Point<i32> {
        pub fn new() -> Self { println!("x"); Point { x: 1, y: 2 } }
        fn hidden(&self) { self.go(); Point::new(); }
    }
    mod inner { pub fn x() {} }
    const MAX: usize = 3;
    macro_rules! shout { () => {} }
"""


def test_rust_exports_what_is_public_or_of_a_trait() -> None:
    found = read("rust", RUST)
    assert kinds(found) == {
        "Point": "struct",
        "Point.x": "field",
        "Point.y": "field",
        "Shape": "trait",
        "Shape.area": "method",
        "Point.area": "method",
        "Point.new": "method",
        "Point.hidden": "method",
        "inner": "module",
        "inner.x": "function",
        "MAX": "constant",
        "shout": "macro",
    }
    assert exported(found) == {"Point", "Point.x", "Shape", "Shape.area", "Point.area", "Point.new", "shout"}
    assert (found.doc, by_name(found)["Point"].doc) == ("Points.", "A point.")
    assert taken(found) == [
        ("std::collections", ("HashMap",)),
        ("std::collections::hash_map", ("Entry",)),
        ("crate::a", ("b",)),
        ("super", ("*",)),
        ("self::sub", ()),
    ]
    assert uses(found, "base") == {"Base", "Shape"}
    assert uses(found, "call") == {"helper", "println", "go", "new"}


JAVA = """\
    package a.b;
    import java.util.List;
    import static java.util.Map.of;
    import a.c.*;
    /** A thing. More.
     * @author x */
    @Entity(name = "x")
    public class A<T> extends Base<T> implements I {
        private static final int MAX = 3;
        public A(int a) { super(a); }
        /** Does it. */
        @Override
        public <R> R run(Foo f) throws Bad { return new Foo().call(y -> helper(y)); }
        private void hidden() {}
        enum E { X; void m() {} }
        record R(int a) {}
        interface K { void k(); }
    }
"""


def test_java_exports_what_is_not_private() -> None:
    found = read("java", JAVA)
    assert kinds(found) == {
        "A": "class",
        "A.MAX": "field",
        "A.A": "constructor",
        "A.run": "method",
        "A.hidden": "method",
        "A.E": "enum",
        "A.E.m": "method",
        "A.R": "class",
        "A.K": "interface",
        "A.K.k": "method",
    }
    assert set(kinds(found)) - exported(found) == {"A.MAX", "A.hidden"}
    assert by_name(found)["A"].signature == "public class A<T> extends Base<T> implements I"
    assert by_name(found)["A"].doc == "A thing."
    assert by_name(found)["A.run"].doc == "Does it."
    assert taken(found) == [("java.util.List", ()), ("java.util.Map", ("of",)), ("a.c", ("*",))]
    assert uses(found, "base") == {"Base", "I"}
    assert uses(found, "decorator") == {"Entity", "Override"}
    assert uses(found, "call") == {"Foo", "call", "helper"}


SOLIDITY = """\
    // SPDX-License-Identifier: MIT
    pragma solidity ^0.8.0;
    import "./Base.sol";
    import {A as B, C} from "./x/Y.sol";

    /// @title A vault.
    /// @notice Holds money.
    abstract contract Vault is Base, Lib.Thing(1) {
        uint256 public constant MAX = 10;
        mapping(address => uint256) private balances;
        event Deposit(address indexed who, uint256 amount);
        error TooMuch(uint256 amount);
        struct Position { uint256 a; Token t; }
        enum State { On, Off }
        modifier onlyOwner() { require(msg.sender == owner); _; }
        constructor(address o) Base(o) { owner = o; }
        receive() external payable {}
        /** @dev Puts money in. Or not. */
        function deposit(uint256 amount) external onlyOwner returns (uint256) {
            if (amount > MAX) revert TooMuch(amount);
            token.transfer(msg.sender, amount);
            emit Deposit(msg.sender, amount);
            return _do(new Token());
        }
        function _do(Token t) private returns (uint) { return 1; }
    }
    interface IToken { function mint() external; }
    library Lib { function add(uint a) internal pure returns (uint) { return a; } }
    function free(uint x) pure returns (uint) { return x; }
    uint constant TOP = 3;
"""


def test_solidity_has_contracts_and_everything_in_them() -> None:
    found = read("solidity", SOLIDITY)
    assert kinds(found) == {
        "Vault": "contract",
        "Vault.MAX": "field",
        "Vault.balances": "field",
        "Vault.Deposit": "event",
        "Vault.TooMuch": "error",
        "Vault.Position": "struct",
        "Vault.State": "enum",
        "Vault.onlyOwner": "modifier",
        "Vault.constructor": "constructor",
        "Vault.receive": "method",
        "Vault.deposit": "method",
        "Vault._do": "method",
        "IToken": "interface",
        "IToken.mint": "method",
        "Lib": "library",
        "Lib.add": "method",
        "free": "function",
        "TOP": "constant",
    }
    assert set(kinds(found)) - exported(found) == {"Vault.balances", "Vault._do"}
    assert by_name(found)["Vault"].doc == "A vault."
    assert by_name(found)["Vault.deposit"].doc == "Puts money in."
    assert taken(found) == [("./Base.sol", ()), ("./x/Y.sol", ("A", "C"))]
    assert uses(found, "base") == {"Base", "Thing"}
    assert uses(found, "decorator") == {"onlyOwner", "Base"}
    assert uses(found, "call") >= {"TooMuch", "transfer", "Deposit", "_do", "require"}


VYPER = """\
    # @version ^0.4.0
    from interfaces import IToken
    implements: IToken

    event Transfer:

        sender: indexed(address)

    interface Bank:
        def mint(a: uint256) -> bool: nonpayable

    flag Role:
        ADMIN

    MAX: constant(uint256) = 10
    owner: public(address)
    hidden: uint256

    @external
    def transfer(to: address, n: uint256) -> bool:
        \"\"\"
        @notice Moves tokens. All of them.
        \"\"\"
        for i: uint256 in range(10):
            self._do(i)
        log Transfer(sender=msg.sender)
        extcall Bank(to).mint(n)
        return True

    @internal
    def _do(i: uint256):
        pass
"""


def test_vyper_is_read_with_its_own_blocks_and_statements() -> None:
    found = read("vyper", VYPER)
    assert kinds(found) == {
        "Transfer": "event",
        "Transfer.sender": "field",
        "Bank": "interface",
        "Bank.mint": "method",
        "Role": "enum",
        "MAX": "constant",
        "owner": "variable",
        "hidden": "variable",
        "transfer": "function",
        "_do": "function",
    }
    assert set(kinds(found)) - exported(found) == {"hidden", "_do"}
    symbols = by_name(found)
    assert symbols["Transfer"].signature == "event Transfer"
    assert (symbols["Transfer"].span.start, symbols["Transfer"].span.end) == (5, 7)
    assert symbols["transfer"].doc == "Moves tokens."
    assert uses(found, "call") >= {"_do", "Transfer", "Bank", "mint"}
    assert any("log Transfer(sender" in chunk.text for chunk in found.chunks)


C = """\
    #include "x.h"
    #include <stdio.h>
    #define MAX 10
    #define SQUARE(x) ((x)*(x))
    typedef struct node { int a; } node_t;
    enum color { RED };
    static int counter = 0;
    int declared(int a);
    /* Adds two. */
    static int *add(int a)
    {
      int local = 3;
      p->run(printf("x"));
      return 0;
    }
"""


def test_c_has_functions_types_macros_and_what_it_includes() -> None:
    found = read("c", C)
    assert kinds(found) == {
        "MAX": "constant",
        "SQUARE": "macro",
        "node_t": "type",
        "node_t.node": "struct",
        "color": "enum",
        "color.RED": "constant",
        "counter": "variable",
        "declared": "function",
        "add": "function",
    }
    assert set(kinds(found)) - exported(found) == {"counter", "add"}
    assert by_name(found)["add"].signature == "static int *add(int a)"
    assert by_name(found)["add"].doc == "Adds two."
    assert taken(found) == [("x.h", ()), ("<stdio.h>", ())]
    assert uses(found, "call") == {"run", "printf"}


def test_what_a_node_is_does_not_depend_on_what_stands_before_it() -> None:
    pointer = "int *made(int a);\n"
    for before in ("", "int x;\n", "void f(void) {}\n"):
        assert kinds(read("c", before + pointer))["made"] == "function"


def test_a_header_that_speaks_cpp_is_read_as_cpp() -> None:
    assert read("c", "namespace n {\nclass A { public: void f(); };\n}\n", "a.h").language == "cpp"
    assert read("c", "struct a { int b; };\n", "a.h").language == "c"


CPP = """\
    #include "x.h"
    namespace outer { namespace inner {
    // A thing.
    class A : public Base {
     public:
      int run(const Foo& f) const { return helper(f); }
     private:
      void hidden();
    };
    } }
    int outer::A::later(int x) { A local(1); return outer::free(x); }
    static void own() {}
"""


def test_cpp_has_namespaces_sections_and_definitions_outside_their_class() -> None:
    found = read("cpp", CPP)
    assert kinds(found) == {
        "outer.inner.A": "class",
        "outer.inner.A.run": "method",
        "outer.inner.A.hidden": "method",
        "outer.A.later": "method",
        "own": "function",
    }
    assert set(kinds(found)) - exported(found) == {"outer.inner.A.hidden", "own"}
    assert by_name(found)["outer.inner.A"].doc == "A thing."
    assert by_name(found)["outer.inner.A.run"].span.end == 6
    assert uses(found, "call") == {"helper", "free"}
    assert taken(found) == [("x.h", ())]


CSHARP = """\
    using System;
    using static System.Math;
    namespace N.M {
      /// <summary>A thing.</summary>
      [Serializable]
      public class A<T> : Base, IFoo<T> {
        private int f = 1;
        public int P { get; set; }
        public A(int a) : base(a) { }
        public async Task<int> Run(Foo x) { return x.Go(new Bar()); }
        void Hidden() {}
      }
    }
"""


def test_csharp_members_are_exported_by_their_modifiers() -> None:
    found = read("csharp", CSHARP)
    assert kinds(found) == {
        "N.M.A": "class",
        "N.M.A.f": "field",
        "N.M.A.P": "field",
        "N.M.A.A": "constructor",
        "N.M.A.Run": "method",
        "N.M.A.Hidden": "method",
    }
    assert set(kinds(found)) - exported(found) == {"N.M.A.f", "N.M.A.Hidden"}
    assert by_name(found)["N.M.A"].signature == "public class A<T> : Base, IFoo<T>"
    assert by_name(found)["N.M.A"].doc == "A thing."
    assert taken(found) == [("System", ()), ("System.Math", ())]
    assert uses(found, "call") == {"Go", "Bar"}


RUBY = """\
    require 'set'
    require_relative 'lib/x'
    # A shop.
    module Shop
      # Sells.
      class Till < Base
        MAX = 3
        # Runs it.
        def run(b)
          helper(b)
        end
        def self.make; new; end
        private
        def hidden; end
      end
    end
"""


def test_ruby_hides_what_follows_private() -> None:
    found = read("ruby", RUBY)
    assert kinds(found) == {
        "Shop": "module",
        "Shop.Till": "class",
        "Shop.Till.MAX": "constant",
        "Shop.Till.run": "method",
        "Shop.Till.make": "method",
        "Shop.Till.hidden": "method",
    }
    assert set(kinds(found)) - exported(found) == {"Shop.Till.hidden"}
    assert by_name(found)["Shop.Till.run"].doc == "Runs it."
    assert taken(found) == [("set", ()), ("./lib/x", ())]
    assert "helper" in uses(found, "call")
    assert uses(found, "base") == {"Base"}


PHP = """\
    <?php
    namespace App;
    use App\\Base\\Model;
    use App\\X\\{A, B as C};
    require_once 'x.php';
    /** A user. */
    class User extends Model implements I {
        const MAX = 3;
        private $name;
        public function run(Foo $x): Bar { $this->go(); helper(); return new Baz(); }
        private function hidden() {}
    }
    trait T {}
    enum E: string { case A = 'a'; }
    function top($a) { return 1; }
"""


def test_php_exports_what_is_not_private() -> None:
    found = read("php", PHP)
    assert kinds(found) == {
        "User": "class",
        "User.MAX": "constant",
        "User.name": "field",
        "User.run": "method",
        "User.hidden": "method",
        "T": "trait",
        "E": "enum",
        "top": "function",
    }
    assert set(kinds(found)) - exported(found) == {"User.name", "User.hidden"}
    assert taken(found) == [("App\\Base\\Model", ()), ("App\\X", ("A", "B")), ("x.php", ())]
    assert uses(found, "base") == {"Model", "I"}
    assert uses(found, "call") == {"go", "helper", "Baz"}


def test_bash_has_functions_variables_and_what_it_sources() -> None:
    found = read(
        "bash", "# Builds.\nsource ./lib.sh\n. other.sh\nVERSION=1\nbuild() { local x=1; make all; }\nbuild\n"
    )
    assert kinds(found) == {"VERSION": "constant", "build": "function"}
    assert taken(found) == [("./lib.sh", ()), ("other.sh", ())]
    assert {"make", "build"} <= uses(found, "call")
    assert found.doc == "Builds."
