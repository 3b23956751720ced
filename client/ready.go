package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Ready asks a server once whether it should get traffic, at /readyz of its listener
// for operators. It returns nil if so. An error says what the server answered, or
// why nothing was answered within five seconds. No API key is needed.
func Ready(ctx context.Context, opsURL string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(opsURL, "/")+"/readyz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: the server is near
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask whether the server is ready: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return fmt.Errorf("ask whether the server is ready: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server is not ready: %d %s", response.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}
