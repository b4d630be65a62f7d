package ginadapter_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/rejoin-mcp/rejoin"
	ginadapter "github.com/rejoin-mcp/rejoin/adapters/gin"
	"github.com/rejoin-mcp/rejoin/client"
)

// A tool reads what middleware set, and a parameter of the path, when gin has long given its Context to another request.
func ExampleRegister() {
	app := rejoin.NewApp(rejoin.Info{Name: "demo", Version: "1.0"}, func(ctx context.Context, _ *rejoin.Request) (any, error) {
		_ = rejoin.HandleFromContext(ctx).CloseStream(0) // the request ends, the call goes on
		user, _ := ginadapter.Get(ctx, "user")
		return fmt.Sprint(user, " of ", ginadapter.Param(ctx, "tenant")), nil
	})
	srv, err := rejoin.NewServer(app, rejoin.Config{Policy: rejoin.Policy{Retry: time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	auth := func(c *gin.Context) { c.Set("user", "ann") }
	ginadapter.Register(r.Group("", auth), "/:tenant/mcp", srv)
	server := httptest.NewServer(r)
	defer server.Close()

	ctx := context.Background()
	s, err := client.Connect(ctx, server.URL+"/acme/mcp", client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	var result struct{ Content []struct{ Text string } }
	err = s.Do(ctx, "tools/call", map[string]any{"name": "whose"}, &result)
	fmt.Println(result.Content, err)
	// Output: [{ann of acme}] <nil>
}
