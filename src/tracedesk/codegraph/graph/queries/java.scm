(class_declaration) @def.class
(record_declaration) @def.class
(interface_declaration) @def.interface
(annotation_type_declaration) @def.interface
(enum_declaration) @def.enum
(method_declaration) @def.method
(constructor_declaration) @def.constructor
(compact_constructor_declaration) @def.constructor
(annotation_type_element_declaration) @def.method
(field_declaration declarator: (variable_declarator) @def.field)
(constant_declaration declarator: (variable_declarator) @def.field)
(field_declaration) @lead.declarator
(constant_declaration) @lead.declarator

(import_declaration) @import

(method_invocation name: (identifier) @ref.call)
(method_reference (identifier) @ref.call .)
(object_creation_expression type: (type_identifier) @ref.call)
(object_creation_expression type: (generic_type (type_identifier) @ref.call))
(superclass (type_identifier) @ref.base)
(superclass (generic_type (type_identifier) @ref.base))
(type_list (type_identifier) @ref.base)
(type_list (generic_type (type_identifier) @ref.base))
(marker_annotation name: (identifier) @ref.decorator)
(annotation name: (identifier) @ref.decorator)
(type_identifier) @ref.type
