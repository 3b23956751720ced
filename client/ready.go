package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Ready asks a server once whether it should get traffic, at /readyz of its listener for operators.
// If the server should get traffic, the warnings say what a person has to do: the server is held
// after a restore, or its disk fills. If not, the error has the server's response, or says why none
// came within five seconds. No API key is needed.
func Ready(ctx context.Context, opsURL string) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(opsURL, "/")+"/readyz", nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // without a proxy: the server is near
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("ask whether the server is ready: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return nil, fmt.Errorf("ask whether the server is ready: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server is not ready: %d %s", response.StatusCode, strings.TrimSpace(string(text)))
	}
	var report struct{ Held, Disk string }
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read whether the server is ready: %w", err)
	}
	return slices.DeleteFunc([]string{report.Held, report.Disk}, func(w string) bool { return w == "" }), nil
}
