package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// surveyArgs are the arguments of the tool "survey": it asks in rounds, by its results (multi round-trip requests), and answers with all answers.
type surveyArgs struct {
	Call   string `json:"call"`
	Seed   uint64 `json:"seed"`
	Rounds int    `json:"rounds"`
	Keys   int    `json:"keys"` // questions in a round
	For    int    `json:"for"`  // most milliseconds before each round, and before the result
	Fill   int    `json:"fill"`
}

// surveyState is what the tool gives to the client, and gets back when it is called again.
type surveyState struct {
	Round int      `json:"round"` // that was asked
	Got   []string `json:"got"`   // the answers of earlier rounds
}

// surveyStep is what one call of the tool comes to: a result, or questions.
type surveyStep struct {
	text  string // of the result
	state string
	asks  map[string]string // the wording of each question
}

// questionOf names a question of a survey. It is the first word of the wording.
func questionOf(call string, round int, key string) string {
	return fmt.Sprintf("%s:%d:%s", call, round, key)
}

// survey is the tool. answers are those that the client sent with this call.
func survey(ctx context.Context, p *surveyArgs, state string, answers map[string]string) (step surveyStep, err error) {
	var now surveyState
	failed := ""
	if state != "" {
		if err := json.Unmarshal([]byte(state), &now); err != nil {
			return step, err
		}
		var got []string
		for k := range p.Keys {
			if said, ok := answers[fmt.Sprint("k", k)]; ok {
				got = append(got, questionOf(p.Call, now.Round, fmt.Sprint("k", k))+"="+said)
			}
		}
		now.Round++
		now.Got = append(now.Got, got...)
		if len(got) < p.Keys { // a task must not go on with a part of the answers
			failed = fmt.Sprintf("%d of %d answers", len(got), p.Keys)
		}
	}
	random := rand.New(rand.NewPCG(p.Seed, uint64(now.Round))) //nolint:gosec // it shall be the same for the same seed
	if !pause(ctx, random.IntN(p.For+1)) {
		return step, context.Cause(ctx)
	}
	if now.Round >= p.Rounds || failed != "" {
		text, err := json.Marshal(outcome{Call: p.Call, Sent: now.Round, Answers: now.Got, Failed: failed, Filling: filling(p.Seed, p.Fill)})
		return surveyStep{text: string(text)}, err
	}
	step.asks = map[string]string{}
	for k := range p.Keys {
		key := fmt.Sprint("k", k)
		step.asks[key] = questionOf(p.Call, now.Round, key) + " please"
	}
	raw, err := json.Marshal(now)
	step.state = string(raw)
	return step, err
}

// said is an answer of a client as the survey reports it.
func said(action string, content any) string {
	fields, _ := content.(map[string]any)
	return strings.TrimSuffix(fmt.Sprintf("%s %v", action, fields["answer"]), " <nil>")
}

func ownSurvey(ctx context.Context, r *rejoin.Request) (any, error) {
	var p surveyArgs
	if err := r.BindArguments(&p); err != nil {
		return nil, err
	}
	var sent struct {
		State   string `json:"requestState"`
		Answers map[string]struct {
			Action  string         `json:"action"`
			Content map[string]any `json:"content"`
		} `json:"inputResponses"`
	}
	if err := json.Unmarshal(r.Params, &sent); err != nil {
		return nil, err
	}
	answers := map[string]string{}
	for key, a := range sent.Answers {
		answers[key] = said(a.Action, a.Content)
	}
	step, err := survey(ctx, &p, sent.State, answers)
	switch {
	case err != nil:
		return nil, err
	case step.asks == nil:
		return rejoin.Text(step.text), nil
	}
	asks := map[string]any{}
	for key, words := range step.asks {
		asks[key] = map[string]any{"method": "elicitation/create", "params": map[string]any{"message": words, "requestedSchema": form}}
	}
	return map[string]any{"resultType": "input_required", "inputRequests": asks, "requestState": step.state}, nil
}

func goSDKSurvey(ctx context.Context, req *official.CallToolRequest, p surveyArgs) (*official.CallToolResult, any, error) {
	answers := map[string]string{}
	for key, a := range req.Params.InputResponses {
		if a, ok := a.(*official.ElicitResult); ok {
			answers[key] = said(a.Action, a.Content)
		}
	}
	step, err := survey(ctx, &p, req.Params.RequestState, answers)
	switch {
	case err != nil:
		return nil, nil, err
	case step.asks == nil:
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: step.text}}}, nil, nil
	}
	asks := official.InputRequestMap{}
	for key, words := range step.asks {
		asks[key] = &official.ElicitParams{Message: words, RequestedSchema: form}
	}
	return &official.CallToolResult{InputRequests: asks, RequestState: step.state}, nil, nil
}

func mcpGoSurvey(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var p surveyArgs
	if err := req.BindArguments(&p); err != nil {
		return nil, err
	}
	answers := map[string]string{}
	for key := range req.Params.InputResponses {
		if a := server.ElicitationResponse(req.Params.InputResponses, key); a != nil {
			answers[key] = said(string(a.Action), a.Content)
		}
	}
	step, err := survey(ctx, &p, req.Params.RequestState, answers)
	switch {
	case err != nil:
		return nil, err
	case step.asks == nil:
		return mcp.NewToolResultText(step.text), nil
	}
	asks := server.NewInputRequestBuilder(step.state)
	for key, words := range step.asks {
		asks.Elicit(key, mcp.ElicitationParams{Message: words, RequestedSchema: form})
	}
	return asks.ToolResult(), nil
}
