"""The table of the members of MCP 2025-11-25's messages, generated from the types of package `mcp`.

Each line of the table has the shape of a method's params or result, the members of a shape, or the
closed list of a member's values (`words`). A member `name:Shape` is one value of that shape or a
list of such values, `name:{Shape}` an object with any names whose values have that shape; a plain
`name` may be any value. `tests/integration/clients/mcp_members.py` prints this table.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """
params completion/complete CompleteRequestParams
params elicitation/create ElicitRequestFormParams+
params initialize InitializeRequestParams
params logging/setLevel SetLevelRequestParams
params notifications/cancelled CancelledNotificationParams
params notifications/elicitation/complete Params1
params notifications/initialized NotificationParams
params notifications/message LoggingMessageNotificationParams
params notifications/progress ProgressNotificationParams
params notifications/prompts/list_changed NotificationParams
params notifications/resources/list_changed NotificationParams
params notifications/resources/updated ResourceUpdatedNotificationParams
params notifications/roots/list_changed NotificationParams
params notifications/tools/list_changed NotificationParams
params ping RequestParams
params prompts/get GetPromptRequestParams
params prompts/list PaginatedRequestParams
params resources/list PaginatedRequestParams
params resources/read ReadResourceRequestParams
params resources/subscribe SubscribeRequestParams
params resources/templates/list PaginatedRequestParams
params resources/unsubscribe UnsubscribeRequestParams
params roots/list RequestParams
params sampling/createMessage CreateMessageRequestParams
params tools/call CallToolRequestParams
params tools/list PaginatedRequestParams
result completion/complete CompleteResult
result elicitation/create ElicitResult
result initialize InitializeResult
result logging/setLevel Result
result ping Result
result prompts/get GetPromptResult
result prompts/list ListPromptsResult
result resources/list ListResourcesResult
result resources/read ReadResourceResult
result resources/subscribe Result
result resources/templates/list ListResourceTemplatesResult
result resources/unsubscribe Result
result roots/list ListRootsResult
result sampling/createMessage CreateMessageResult
result tools/call CallToolResult
result tools/list ListToolsResult
shape Annotations audience lastModified priority
shape Argument name value
shape AudioContent+ _meta annotations:Annotations content:AudioContent++ data id input isError
    mimeType name structuredContent text toolUseId type
shape AudioContent++ _meta annotations:Annotations data description icons:Icon mimeType name
    resource:BlobResourceContents+ size text title type uri
shape BlobResourceContents+ _meta blob mimeType text uri
shape CallToolRequestParams _meta arguments name task:TaskMetadata
shape CallToolResult _meta content:AudioContent++ isError structuredContent
shape CancelledNotificationParams _meta reason requestId
shape ClientCapabilities elicitation:Elicitation experimental roots:Roots sampling:Sampling
    tasks:Tasks
shape CompleteRequestParams _meta argument:Argument context:Context ref:PromptReference+
shape CompleteResult _meta completion:Completion
shape Completion hasMore total values
shape Context arguments
shape CreateMessageRequestParams _meta includeContext maxTokens messages:SamplingMessage
    metadata modelPreferences:ModelPreferences stopSequences systemPrompt task:TaskMetadata
    temperature toolChoice:ToolChoice tools:Tool
shape CreateMessageResult _meta content:AudioContent+ model role stopReason
shape ElicitRequestFormParams+ _meta elicitationId message mode requestedSchema:RequestedSchema
    task:TaskMetadata url
shape ElicitResult _meta action content
shape Elicitation form url
shape Elicitation1 create
shape GetPromptRequestParams _meta arguments name
shape GetPromptResult _meta description messages:PromptMessage
shape Icon mimeType sizes src theme
shape Implementation description icons:Icon name title version websiteUrl
shape InitializeRequestParams _meta capabilities:ClientCapabilities clientInfo:Implementation
    protocolVersion
shape InitializeResult _meta capabilities:ServerCapabilities instructions protocolVersion
    serverInfo:Implementation
shape ListPromptsResult _meta nextCursor prompts:Prompt
shape ListResourceTemplatesResult _meta nextCursor resourceTemplates:ResourceTemplate
shape ListResourcesResult _meta nextCursor resources:Resource
shape ListRootsResult _meta roots:Root
shape ListToolsResult _meta nextCursor tools:Tool
shape LoggingMessageNotificationParams _meta data level logger
shape ModelHint name
shape ModelPreferences costPriority hints:ModelHint intelligencePriority speedPriority
shape NotificationParams _meta
shape PaginatedRequestParams _meta cursor
shape Params1 elicitationId
shape ProgressNotificationParams _meta message progress progressToken total
shape Prompt _meta arguments:PromptArgument description icons:Icon name title
shape PromptArgument description name required title
shape PromptMessage content:AudioContent++ role
shape PromptReference+ name title type uri
shape Prompts listChanged
shape ReadResourceRequestParams _meta uri
shape ReadResourceResult _meta contents:BlobResourceContents+
shape RequestParams _meta
shape RequestedSchema $schema properties required type
shape Requests elicitation:Elicitation1 sampling:Sampling1
shape Requests1 tools:Tools
shape Resource _meta annotations:Annotations description icons:Icon mimeType name size title uri
shape ResourceTemplate _meta annotations:Annotations description icons:Icon mimeType name title
    uriTemplate
shape ResourceUpdatedNotificationParams _meta uri
shape Resources listChanged subscribe
shape Result _meta
shape Root _meta name uri
shape Roots listChanged
shape Sampling context tools
shape Sampling1 createMessage
shape SamplingMessage _meta content:AudioContent+ role
shape ServerCapabilities completions experimental logging prompts:Prompts resources:Resources
    tasks:Tasks1 tools:Tools1
shape SetLevelRequestParams _meta level
shape SubscribeRequestParams _meta uri
shape TaskMetadata ttl
shape Tasks cancel list requests:Requests
shape Tasks1 cancel list requests:Requests1
shape Tool _meta annotations:ToolAnnotations description execution:ToolExecution icons:Icon
    inputSchema name outputSchema title
shape ToolAnnotations destructiveHint idempotentHint openWorldHint readOnlyHint title
shape ToolChoice mode
shape ToolExecution taskSupport
shape Tools call
shape Tools1 listChanged
shape UnsubscribeRequestParams _meta uri
words action accept cancel decline
words audience assistant user
words includeContext allServers none thisServer
words level alert critical debug emergency error info notice warning
words mode auto form none required url
words role assistant user
words taskSupport forbidden optional required
words theme dark light
words type audio image object ref/prompt ref/resource resource resource_link text tool_result
    tool_use
"""
