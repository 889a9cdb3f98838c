; Python. Assignments are taken everywhere; those inside functions are dropped as local when spans are nested.

(function_definition) @def.function
(class_definition) @def.class
(decorated_definition) @wrap.definition
(expression_statement (assignment left: (identifier)) @def.variable.left)
(type_alias_statement left: (type (identifier))) @def.type.left

(module . (comment)* . (expression_statement . (string) @doc .))
(function_definition body: (block . (expression_statement . (string) @doc .)))
(class_definition body: (block . (expression_statement . (string) @doc .)))

(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import

(call function: (identifier) @ref.call)
(call function: (attribute attribute: (identifier) @ref.call))
(class_definition superclasses: (argument_list (identifier) @ref.base))
(class_definition superclasses: (argument_list (attribute attribute: (identifier) @ref.base)))
(class_definition superclasses: (argument_list (subscript value: (identifier) @ref.base)))
(class_definition superclasses: (argument_list (subscript value: (attribute attribute: (identifier) @ref.base))))
(class_definition superclasses: (argument_list (keyword_argument value: (identifier) @ref.base)))
(decorator (identifier) @ref.decorator)
(decorator (attribute attribute: (identifier) @ref.decorator))
(decorator (call function: (identifier) @ref.decorator))
(decorator (call function: (attribute attribute: (identifier) @ref.decorator)))
(type (identifier) @ref.type)
(type (attribute attribute: (identifier) @ref.type))
(type (subscript value: (identifier) @ref.type))
(type (generic_type (identifier) @ref.type))
(type (binary_operator (identifier) @ref.type))
(type (binary_operator (binary_operator (identifier) @ref.type)))
(except_clause value: (identifier) @ref.type)
(except_clause value: (as_pattern (identifier) @ref.type))
(except_clause value: (tuple (identifier) @ref.type))
(except_clause value: (as_pattern (tuple (identifier) @ref.type)))
