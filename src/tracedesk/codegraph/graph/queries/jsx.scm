(jsx_opening_element name: (identifier) @ref.element)
(jsx_opening_element name: (member_expression property: (property_identifier) @ref.element))
(jsx_self_closing_element name: (identifier) @ref.element)
(jsx_self_closing_element name: (member_expression property: (property_identifier) @ref.element))
