// A small MCP memory server over stdio, as any Go server reads its messages: encoding/json into structs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type message struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type entity struct {
	Name         string   `json:"name"`
	EntityType   string   `json:"entityType"`
	Observations []string `json:"observations"`
}

type call struct {
	Name      string `json:"name"`
	Arguments struct {
		Entities []entity `json:"entities"`
	} `json:"arguments"`
}

type object = map[string]any

func main() {
	store, _ := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0600)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<24)
	for lines.Scan() {
		var said message
		if json.Unmarshal(lines.Bytes(), &said) != nil {
			continue
		}
		result := object{}
		switch said.Method {
		case "initialize":
			result = object{"protocolVersion": "2025-06-18", "capabilities": object{"tools": object{}},
				"serverInfo": object{"name": "memory-server", "version": "1"}}
		case "tools/list":
			tools := []any{}
			for _, name := range []string{"create_entities", "read_graph"} {
				tools = append(tools, object{"name": name, "description": name,
					"inputSchema": object{"type": "object"}})
			}
			result = object{"tools": tools}
		case "tools/call":
			var called call
			json.Unmarshal(said.Params, &called)
			if called.Name == "create_entities" {
				for _, one := range called.Arguments.Entities {
					line, _ := json.Marshal(one)
					fmt.Fprintln(store, string(line))
				}
			}
			result = object{"content": []any{object{"type": "text", "text": "done " + called.Name}}}
		}
		if said.ID != nil {
			answer, _ := json.Marshal(object{"jsonrpc": "2.0", "id": said.ID, "result": result})
			fmt.Println(string(answer))
		}
	}
}
