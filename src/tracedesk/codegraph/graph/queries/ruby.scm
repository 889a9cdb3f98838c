; Beside the tags its grammar ships: constants and what a file requires.

(assignment left: (constant)) @def.constant.left
(superclass (constant) @ref.base)
(superclass (scope_resolution name: (constant) @ref.base))
(call method: (identifier) arguments: (argument_list . (string))) @import
