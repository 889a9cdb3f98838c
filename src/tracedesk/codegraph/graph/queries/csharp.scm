(class_declaration) @def.class
(record_declaration) @def.class
(struct_declaration) @def.struct
(interface_declaration) @def.interface
(enum_declaration) @def.enum
(delegate_declaration) @def.type
(method_declaration) @def.method
(constructor_declaration) @def.constructor
(property_declaration) @def.field
(field_declaration (variable_declaration (variable_declarator) @def.field))
(event_field_declaration (variable_declaration (variable_declarator) @def.event))
(local_function_statement) @def.function
(namespace_declaration) @def.space
(field_declaration) @lead.variable_declarator
(event_field_declaration) @lead.variable_declarator

(using_directive) @import

(invocation_expression function: (identifier) @ref.call)
(invocation_expression function: (member_access_expression name: (identifier) @ref.call))
(invocation_expression function: (generic_name (identifier) @ref.call))
(object_creation_expression type: (identifier) @ref.call)
(object_creation_expression type: (generic_name (identifier) @ref.call))
(base_list (identifier) @ref.base)
(base_list (generic_name (identifier) @ref.base))
(base_list (qualified_name name: (identifier) @ref.base))
(attribute name: (identifier) @ref.decorator)
(parameter type: (identifier) @ref.type)
(variable_declaration type: (identifier) @ref.type)
(method_declaration returns: (identifier) @ref.type)
(property_declaration type: (identifier) @ref.type)
(type_argument_list (identifier) @ref.type)
