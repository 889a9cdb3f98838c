; Beside the tags its grammar ships (definitions only): prefixes, aliases, includes and references.

(namespace_definition name: (_)) @def.space
(alias_declaration) @def.type
(preproc_function_def) @def.macro
(preproc_def) @def.constant
(field_declaration declarator: (field_identifier)) @def.field.declarator
(function_definition declarator: (function_declarator declarator: (qualified_identifier))) @def.method.declarator
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier)))) @def.method.declarator
(lambda_expression) @scope

(preproc_include) @import

(call_expression function: (identifier) @ref.call)
(call_expression function: (field_expression field: (field_identifier) @ref.call))
(call_expression function: (qualified_identifier name: (identifier) @ref.call))
(new_expression type: (type_identifier) @ref.call)
(base_class_clause (type_identifier) @ref.base)
(base_class_clause (qualified_identifier name: (type_identifier) @ref.base))
(type_identifier) @ref.type
