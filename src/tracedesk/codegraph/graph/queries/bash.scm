(function_definition) @def.function
(program (variable_assignment name: (variable_name)) @def.variable)
(program (declaration_command (variable_assignment name: (variable_name)) @def.variable))
(program (declaration_command) @lead)
(command name: (command_name (word) @ref.call))
(command name: (command_name (word)) argument: [(word) (string) (concatenation)]) @import
