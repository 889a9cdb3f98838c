(function_item) @def.function
(function_signature_item) @def.function
(struct_item) @def.struct
(union_item) @def.struct
(enum_item) @def.enum
(trait_item) @def.trait
(type_item) @def.type
(associated_type) @def.type
(const_item) @def.constant
(static_item) @def.variable
(macro_definition) @def.macro
(mod_item body: (_)) @def.module
(impl_item) @def.impl.type
(field_declaration) @def.field

(closure_expression) @scope
(use_declaration) @import
(mod_item !body) @import

(call_expression function: (identifier) @ref.call)
(call_expression function: (scoped_identifier name: (identifier) @ref.call))
(call_expression function: (field_expression field: (field_identifier) @ref.call))
(call_expression function: (generic_function function: (identifier) @ref.call))
(call_expression function: (generic_function function: (scoped_identifier name: (identifier) @ref.call)))
(call_expression function: (generic_function function: (field_expression field: (field_identifier) @ref.call)))
(call_expression function: (scoped_identifier path: (identifier) @ref.type))
(macro_invocation macro: (identifier) @ref.call)
(macro_invocation macro: (scoped_identifier name: (identifier) @ref.call))
(impl_item trait: (type_identifier) @ref.base)
(impl_item trait: (generic_type type: (type_identifier) @ref.base))
(impl_item trait: (scoped_type_identifier name: (type_identifier) @ref.base))
(trait_item bounds: (trait_bounds (type_identifier) @ref.base))
(attribute (identifier) @ref.decorator)
(type_identifier) @ref.type
