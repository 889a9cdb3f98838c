; What JavaScript and TypeScript share.

(function_declaration) @def.function
(generator_function_declaration) @def.function
(class_declaration) @def.class
(class_body (method_definition) @def.method)
(object (method_definition) @def.member)
(pair
  key: [(property_identifier) (string)]
  value: [(arrow_function) (function_expression) (generator_function)]) @def.member.key.value
(variable_declarator name: (identifier)) @def.variable
(variable_declarator
  name: (identifier)
  value: [(arrow_function) (function_expression) (generator_function)]) @def.function.name.value
(variable_declarator name: (identifier) value: (class)) @def.class.name.value
(assignment_expression
  left: (member_expression property: (property_identifier))
  right: [(arrow_function) (function_expression)]) @def.function.left-property.right

(lexical_declaration) @lead
(variable_declaration) @lead
(export_statement declaration: (_)) @export.declaration
(export_statement !source (export_clause (export_specifier name: (identifier) @exported)))
(export_statement value: (identifier) @exported)

[(arrow_function) (function_expression) (generator_function)] @scope

(import_statement) @import
(export_statement source: (string)) @import
(call_expression function: (import) arguments: (arguments . (string))) @import

(call_expression function: (identifier) @ref.call)
(call_expression function: (member_expression property: (property_identifier) @ref.call))
(new_expression constructor: (identifier) @ref.call)
(new_expression constructor: (member_expression property: (property_identifier) @ref.call))
(decorator (identifier) @ref.decorator)
(decorator (call_expression function: (identifier) @ref.decorator))
(decorator (call_expression function: (member_expression property: (property_identifier) @ref.decorator)))
