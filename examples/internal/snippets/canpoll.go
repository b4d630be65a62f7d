package snippets

import "github.com/rejoin-mcp/rejoin"

// CanPoll tells the server about a client that does not poll.
func CanPoll(app rejoin.App) (*rejoin.Server, error) {
	return rejoin.NewServer(app, rejoin.Config{
		CanPoll: func(client rejoin.ClientInfo, presumed bool) bool {
			return presumed && client.Name != "My Assistant" // the AI SDK under another name
		},
	})
}
