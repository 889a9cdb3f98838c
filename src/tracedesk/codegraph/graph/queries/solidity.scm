(contract_declaration) @def.contract
(interface_declaration) @def.interface
(library_declaration) @def.library
(function_definition) @def.function
(constructor_definition) @def.constructor.first
(fallback_receive_definition) @def.function.first
(modifier_definition) @def.modifier
(event_definition) @def.event
(error_declaration) @def.error
(struct_declaration) @def.struct
(enum_declaration) @def.enum
(user_defined_type_definition) @def.type
(state_variable_declaration) @def.variable
(constant_variable_declaration) @def.constant

(import_directive) @import

(call_expression function: (expression (identifier) @ref.call))
(call_expression function: (expression (member_expression property: (identifier) @ref.call)))
(call_expression function: (expression (new_expression name: (type_name (user_defined_type (identifier) @ref.call .)))))
(emit_statement name: (expression (identifier) @ref.call))
(emit_statement name: (expression (member_expression property: (identifier) @ref.call)))
(revert_statement error: (expression (identifier) @ref.call))
(revert_statement error: (expression (member_expression property: (identifier) @ref.call)))
(modifier_invocation (identifier) @ref.decorator)
(inheritance_specifier ancestor: (user_defined_type (identifier) @ref.base .))
(using_directive (type_alias (identifier) @ref.type))
(user_defined_type (identifier) @ref.type .)
