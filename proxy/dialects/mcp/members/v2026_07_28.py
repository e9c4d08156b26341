"""The table of the members of MCP 2026-07-28's messages, generated from the types of package `mcp`.

Each line of the table has the shape of a method's params or result, the members of a shape, or the
closed list of a member's values (`words`). A member `name:Shape` is one value of that shape or a
list of such values, `name:{Shape}` an object with any names whose values have that shape; a plain
`name` may be any value. `tests/integration/clients/mcp_members.py` prints this table.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """
params completion/complete CompleteRequestParams
params notifications/cancelled CancelledNotificationParams
params notifications/message LoggingMessageNotificationParams
params notifications/progress ProgressNotificationParams
params notifications/prompts/list_changed NotificationParams
params notifications/resources/list_changed NotificationParams
params notifications/resources/updated ResourceUpdatedNotificationParams
params notifications/subscriptions/acknowledged SubscriptionsAcknowledgedNotificationParams
params notifications/tools/list_changed NotificationParams
params prompts/get GetPromptRequestParams
params prompts/list PaginatedRequestParams
params resources/list PaginatedRequestParams
params resources/read ReadResourceRequestParams
params resources/templates/list PaginatedRequestParams
params server/discover RequestParams
params subscriptions/listen SubscriptionsListenRequestParams
params tools/call CallToolRequestParams
params tools/list PaginatedRequestParams
result completion/complete CompleteResult
result prompts/get GetPromptResult+
result prompts/list ListPromptsResult
result resources/list ListResourcesResult
result resources/read InputRequiredResult+
result resources/templates/list ListResourceTemplatesResult
result server/discover DiscoverResult
result subscriptions/listen SubscriptionsListenResult
result tools/call CallToolResult+
result tools/list ListToolsResult
shape Annotations audience lastModified priority
shape Argument name value
shape AudioContent+ _meta annotations:Annotations content:AudioContent++ data id input isError
    mimeType name structuredContent text toolUseId type
shape AudioContent++ _meta annotations:Annotations data description icons:Icon mimeType name
    resource:BlobResourceContents+ size text title type uri
shape BlobResourceContents+ _meta blob mimeType text uri
shape CallToolRequestParams _meta arguments inputResponses:{CreateMessageResult+} name
    requestState
shape CallToolResult+ _meta content:AudioContent++ inputRequests:{CreateMessageRequest+} isError
    requestState resultType structuredContent
shape CancelledNotificationParams _meta reason requestId
shape CompleteRequestParams _meta argument:Argument context:Context ref:PromptReference+
shape CompleteResult _meta completion:Completion resultType
shape Completion hasMore total values
shape Context arguments
shape CreateMessageRequest+ method params:CreateMessageRequestParams+
shape CreateMessageRequestParams+ _meta includeContext maxTokens message
    messages:SamplingMessage metadata mode modelPreferences:ModelPreferences
    requestedSchema:RequestedSchema stopSequences systemPrompt temperature toolChoice:ToolChoice
    tools:Tool url
shape CreateMessageResult+ _meta action content model role roots:Root stopReason
shape DiscoverResult _meta cacheScope capabilities:ServerCapabilities instructions resultType
    supportedVersions ttlMs
shape GetPromptRequestParams _meta arguments inputResponses:{CreateMessageResult+} name
    requestState
shape GetPromptResult+ _meta description inputRequests:{CreateMessageRequest+}
    messages:PromptMessage requestState resultType
shape Icon mimeType sizes src theme
shape InputRequiredResult+ _meta cacheScope contents:BlobResourceContents+
    inputRequests:{CreateMessageRequest+} requestState resultType ttlMs
shape ListPromptsResult _meta cacheScope nextCursor prompts:Prompt resultType ttlMs
shape ListResourceTemplatesResult _meta cacheScope nextCursor resourceTemplates:ResourceTemplate
    resultType ttlMs
shape ListResourcesResult _meta cacheScope nextCursor resources:Resource resultType ttlMs
shape ListToolsResult _meta cacheScope nextCursor resultType tools:Tool ttlMs
shape LoggingMessageNotificationParams _meta data level logger
shape ModelHint name
shape ModelPreferences costPriority hints:ModelHint intelligencePriority speedPriority
shape NotificationParams _meta
shape PaginatedRequestParams _meta cursor
shape ProgressNotificationParams _meta message progress progressToken total
shape Prompt _meta arguments:PromptArgument description icons:Icon name title
shape PromptArgument description name required title
shape PromptMessage content:AudioContent++ role
shape PromptReference+ name title type uri
shape Prompts listChanged
shape ReadResourceRequestParams _meta inputResponses:{CreateMessageResult+} requestState uri
shape RequestParams _meta
shape RequestedSchema $schema properties required type
shape Resource _meta annotations:Annotations description icons:Icon mimeType name size title uri
shape ResourceTemplate _meta annotations:Annotations description icons:Icon mimeType name title
    uriTemplate
shape ResourceUpdatedNotificationParams _meta uri
shape Resources listChanged subscribe
shape Root _meta name uri
shape SamplingMessage _meta content:AudioContent+ role
shape ServerCapabilities completions experimental extensions logging prompts:Prompts
    resources:Resources tools:Tools
shape SubscriptionFilter promptsListChanged resourceSubscriptions resourcesListChanged
    toolsListChanged
shape SubscriptionsAcknowledgedNotificationParams _meta notifications:SubscriptionFilter
shape SubscriptionsListenRequestParams _meta notifications:SubscriptionFilter
shape SubscriptionsListenResult _meta resultType
shape Tool _meta annotations:ToolAnnotations description icons:Icon inputSchema name
    outputSchema title
shape ToolAnnotations destructiveHint idempotentHint openWorldHint readOnlyHint title
shape ToolChoice mode
shape Tools listChanged
words action accept cancel decline
words audience assistant user
words cacheScope private public
words includeContext allServers none thisServer
words level alert critical debug emergency error info notice warning
words method elicitation/create roots/list sampling/createMessage
words mode auto form none required url
words role assistant user
words theme dark light
words type audio image object ref/prompt ref/resource resource resource_link text tool_result
    tool_use
"""
