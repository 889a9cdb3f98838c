; Beside the tags its grammar ships: enums, constants, base classes and what a file uses.

(enum_declaration) @def.enum
(const_element (name)) @def.constant.first
(anonymous_function) @scope
(arrow_function) @scope

(namespace_use_declaration) @import
(require_expression) @import
(require_once_expression) @import
(include_expression) @import
(include_once_expression) @import

(base_clause (name) @ref.base)
(base_clause (qualified_name (name) @ref.base))
(function_call_expression function: (name) @ref.call)
(object_creation_expression (name) @ref.call)
(named_type (name) @ref.type)
(scoped_call_expression scope: (name) @ref.type)
