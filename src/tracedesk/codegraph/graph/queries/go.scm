(function_declaration) @def.function
(method_declaration) @def.method
(type_spec) @def.type
(type_spec type: (struct_type)) @def.struct
(type_spec type: (interface_type)) @def.interface
(type_alias) @def.type
(method_elem) @def.method
(field_declaration name: (field_identifier)) @def.field
(const_spec) @def.constant
(var_spec) @def.variable
(type_declaration) @lead
(const_declaration) @lead
(var_declaration . (var_spec)) @lead

(func_literal) @scope
(import_spec) @import

(call_expression function: (identifier) @ref.call)
(call_expression function: (selector_expression field: (field_identifier) @ref.call))
(call_expression function: (type_instantiation_expression type: (type_identifier) @ref.call))
(field_declaration !name type: (type_identifier) @ref.base)
(field_declaration !name type: (qualified_type name: (type_identifier) @ref.base))
(field_declaration !name type: (pointer_type (type_identifier) @ref.base))
(interface_type (type_elem (type_identifier) @ref.base))
(type_identifier) @ref.type
