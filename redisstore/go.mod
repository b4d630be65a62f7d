module github.com/rejoin-mcp/rejoin/redisstore

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/rejoin-mcp/rejoin v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/rejoin-mcp/rejoin => ../
