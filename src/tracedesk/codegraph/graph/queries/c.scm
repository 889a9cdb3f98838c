(function_definition declarator: (_)) @def.function.declarator
(declaration declarator: (function_declarator)) @def.function.declarator
(declaration declarator: (pointer_declarator declarator: (function_declarator))) @def.function.declarator
(declaration declarator: [(init_declarator) (identifier) (array_declarator) (pointer_declarator)]) @def.variable.declarator
(struct_specifier name: (_) body: (_)) @def.struct
(union_specifier name: (_) body: (_)) @def.struct
(enum_specifier name: (_) body: (_)) @def.enum
(enumerator) @def.constant
(type_definition declarator: (_)) @def.type.declarator
(preproc_def) @def.constant
(preproc_function_def) @def.macro

(preproc_include) @import

(call_expression function: (identifier) @ref.call)
(call_expression function: (field_expression field: (field_identifier) @ref.call))
(type_identifier) @ref.type
