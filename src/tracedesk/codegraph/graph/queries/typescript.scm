(abstract_class_declaration) @def.class
(interface_declaration) @def.interface
(type_alias_declaration) @def.type
(enum_declaration) @def.enum
(internal_module) @def.namespace
(module name: (_)) @def.namespace
(function_signature) @def.function
(method_signature) @def.method
(abstract_method_signature) @def.method
(public_field_definition name: [(property_identifier) (private_property_identifier)]) @def.field
(public_field_definition
  name: [(property_identifier) (private_property_identifier)]
  value: [(arrow_function) (function_expression)]) @def.method.name.value
(ambient_declaration) @lead

(import_alias) @import

(extends_clause value: (identifier) @ref.base)
(extends_clause value: (member_expression property: (property_identifier) @ref.base))
(extends_clause value: (call_expression function: (identifier) @ref.base))
(implements_clause (type_identifier) @ref.base)
(implements_clause (generic_type name: (type_identifier) @ref.base))
(implements_clause (nested_type_identifier name: (type_identifier) @ref.base))
(extends_type_clause type: (type_identifier) @ref.base)
(extends_type_clause type: (generic_type name: (type_identifier) @ref.base))
(type_query (identifier) @ref.type)
(type_identifier) @ref.type
