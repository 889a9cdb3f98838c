# Made by protoc from provider.proto; a test compares it with what protoc makes.
# fmt: off
# ruff: noqa
# type: ignore
from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Json(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "description", "input_schema", "output_schema", "scope")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema: Json
    output_schema: Json
    scope: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema: _Optional[_Union[Json, _Mapping]] = ..., output_schema: _Optional[_Union[Json, _Mapping]] = ..., scope: _Optional[str] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("uri_scheme", "description", "mime_type", "uri", "name", "subscribable")
    URI_SCHEME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBABLE_FIELD_NUMBER: _ClassVar[int]
    uri_scheme: str
    description: str
    mime_type: str
    uri: str
    name: str
    subscribable: bool
    def __init__(self, uri_scheme: _Optional[str] = ..., description: _Optional[str] = ..., mime_type: _Optional[str] = ..., uri: _Optional[str] = ..., name: _Optional[str] = ..., subscribable: _Optional[bool] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("name", "description", "args_schema")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    args_schema: Json
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., args_schema: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ("tools", "resources", "prompts", "provider_version")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_VERSION_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    resources: _containers.RepeatedCompositeFieldContainer[Resource]
    prompts: _containers.RepeatedCompositeFieldContainer[Prompt]
    provider_version: str
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., resources: _Optional[_Iterable[_Union[Resource, _Mapping]]] = ..., prompts: _Optional[_Iterable[_Union[Prompt, _Mapping]]] = ..., provider_version: _Optional[str] = ...) -> None: ...

class InvokeRequest(_message.Message):
    __slots__ = ("tool_name", "payload", "correlation_id")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    payload: Json
    correlation_id: str
    def __init__(self, tool_name: _Optional[str] = ..., payload: _Optional[_Union[Json, _Mapping]] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class InvokeResponse(_message.Message):
    __slots__ = ("result", "error")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    result: Json
    error: str
    def __init__(self, result: _Optional[_Union[Json, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class ResourceRequest(_message.Message):
    __slots__ = ("uri", "correlation_id")
    URI_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    uri: str
    correlation_id: str
    def __init__(self, uri: _Optional[str] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class ResourceResponse(_message.Message):
    __slots__ = ("content", "mime_type", "error")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    mime_type: str
    error: str
    def __init__(self, content: _Optional[bytes] = ..., mime_type: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class PromptRequest(_message.Message):
    __slots__ = ("prompt_name", "arguments", "correlation_id")
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    prompt_name: str
    arguments: Json
    correlation_id: str
    def __init__(self, prompt_name: _Optional[str] = ..., arguments: _Optional[_Union[Json, _Mapping]] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class PromptResponse(_message.Message):
    __slots__ = ("messages", "error")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[PromptMessage]
    error: str
    def __init__(self, messages: _Optional[_Iterable[_Union[PromptMessage, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class PromptMessage(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class CloudEvent(_message.Message):
    __slots__ = ("id", "source", "type", "time", "specversion", "data")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SPECVERSION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    source: str
    type: str
    time: str
    specversion: str
    data: Json
    def __init__(self, id: _Optional[str] = ..., source: _Optional[str] = ..., type: _Optional[str] = ..., time: _Optional[str] = ..., specversion: _Optional[str] = ..., data: _Optional[_Union[Json, _Mapping]] = ...) -> None: ...
