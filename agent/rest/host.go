package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// fieldManager owns status.agent of the host.
const fieldManager = "capstan-agent"

// hosts is the path of CapstanHost's API group.
const hosts = "/apis/infrastructure.capstan.dev/v1beta2"

// WatchHost calls the function see with the current host, again after each change, and with nil when the host is
// deleted.
//
// It returns nil when the server ends the watch, which happens after some minutes, and an error when the connection
// fails or ctx ends. The next call starts with the current state again, so no change is missed.
func (c *Client) WatchHost(ctx context.Context, see func(*v1beta2.CapstanHost)) error {
	// Normally the server ends the watch first; our own limit is for a server that does not.
	limit := 240 + rand.IntN(120)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(limit+30)*time.Second)
	defer cancel()
	response, err := c.send(ctx, http.MethodGet, c.namespaced(hosts, "capstanhosts", ""), url.Values{
		"watch":          {"true"},
		"fieldSelector":  {"metadata.name=" + c.host},
		"timeoutSeconds": {strconv.Itoa(limit)},
	}, "", nil)
	if err != nil {
		return fmt.Errorf("watching the host: %w", err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, 16<<10), bodyLimit)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := c.event(lines.Bytes(), see); err != nil {
			return fmt.Errorf("watching the host: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("watching the host: %w", err)
	}
	return nil
}

func (c *Client) event(line []byte, see func(*v1beta2.CapstanHost)) error {
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	switch event.Type {
	case "ADDED", "MODIFIED", "DELETED":
		host := &v1beta2.CapstanHost{}
		if err := json.Unmarshal(event.Object, host); err != nil {
			return err
		}
		if host.Name != c.host {
			return nil
		}
		if event.Type == "DELETED" {
			host = nil
		}
		see(host)
	case "ERROR":
		status := &StatusError{}
		_ = json.Unmarshal(event.Object, status)
		return status
	}
	return nil
}

// ApplyReport replaces status.agent of the host with the report. It leaves out fields that an older management cluster
// does not know.
func (c *Client) ApplyReport(ctx context.Context, r *v1beta2.AgentReport) error {
	err := c.applyReport(ctx, r)
	var status *StatusError
	if errors.As(err, &status) && strings.Contains(status.Message, "field not declared in schema") {
		return c.applyReport(ctx, report.ForEarlier(r))
	}
	return err
}

func (c *Client) applyReport(ctx context.Context, report *v1beta2.AgentReport) error {
	patch := map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta2",
		"kind":       "CapstanHost",
		"metadata":   map[string]string{"name": c.host, "namespace": c.namespace},
		"status":     map[string]any{"agent": report},
	}
	query := url.Values{"fieldManager": {fieldManager}, "force": {"true"}}
	path := c.namespaced(hosts, "capstanhosts", c.host) + "/status"
	if err := c.call(ctx, http.MethodPatch, path, query, "application/apply-patch+yaml", patch, nil); err != nil {
		return fmt.Errorf("reporting to the management cluster: %w", err)
	}
	return nil
}

// BootstrapData holds the contents of the host's bootstrap Secret.
type BootstrapData struct {
	// Value is the bootstrap data itself.
	Value []byte
	// Format is the format; always cloud-config.
	Format string
	// Instance holds the values that the data may refer to as ds.meta_data.
	Instance v1beta2.InstanceData
	// Metadata holds all metadata values by key, including those of Instance.
	Metadata map[string]any
}

// BootstrapData reads the host's bootstrap Secret.
func (c *Client) BootstrapData(ctx context.Context) (*BootstrapData, error) {
	name := c.host + v1beta2.BootstrapSecretSuffix
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	if err := c.call(ctx, http.MethodGet, c.namespaced("/api/v1", "secrets", name), nil, "", nil, &secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	data := &BootstrapData{Value: secret.Data["value"], Format: string(secret.Data["format"])}
	if raw := secret.Data["metadata"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &data.Instance); err != nil {
			return nil, fmt.Errorf("reading Secret %s: key metadata: %w", name, err)
		}
		if err := json.Unmarshal(raw, &data.Metadata); err != nil {
			return nil, fmt.Errorf("reading Secret %s: key metadata: %w", name, err)
		}
	}
	return data, nil
}
