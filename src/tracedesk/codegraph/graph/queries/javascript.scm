(field_definition property: [(property_identifier) (private_property_identifier)]) @def.field.property
(field_definition
  property: [(property_identifier) (private_property_identifier)]
  value: [(arrow_function) (function_expression)]) @def.method.property.value

(class_heritage (identifier) @ref.base)
(class_heritage (member_expression property: (property_identifier) @ref.base))
(class_heritage (call_expression function: (identifier) @ref.base))
