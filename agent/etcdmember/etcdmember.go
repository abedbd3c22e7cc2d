// Package etcdmember removes the etcd member of this host from the etcd cluster.
//
// "kubeadm join" adds a member and starts it. If kubeadm is interrupted after that and runs again, it finds the member
// in the cluster and starts the member with an empty data directory. etcd refuses that forever, because the cluster
// remembers what the member had confirmed. "kubeadm reset" removes the member only if the node is registered, which
// happens later.
//
// The package uses the JSON form of etcd's API, which etcd serves in addition to gRPC, because that needs only an HTTP
// client.
package etcdmember

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/regular"
)

// clientPort is the port on which members serve clients, as set up by kubeadm.
const clientPort = "2379"

// answerLimit bounds a response, in bytes.
const answerLimit = 1 << 20

// Member is this host's etcd member, as set up by kubeadm.
type Member struct {
	// PeerURLs are the URLs under which the cluster knows the member.
	PeerURLs []string
	// Others are the client URLs of the other members.
	Others []string
	// CA, Cert and Key are the files of a client's credentials.
	CA, Cert, Key string
}

// Find reads kubeadm's manifest and returns the member, or nil if this host has no member or the cluster has no other
// members. dir is /etc/kubernetes.
func Find(dir string) (*Member, error) {
	data, err := regular.Read(filepath.Join(dir, "manifests", "etcd.yaml"), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of etcd: %w", err)
	}
	var pod struct {
		Spec struct {
			Containers []struct{ Command []string }
		}
	}
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, fmt.Errorf("reading the manifest of etcd: %w", err)
	}
	pki := filepath.Join(dir, "pki", "etcd")
	m := &Member{
		CA: filepath.Join(pki, "ca.crt"), Cert: filepath.Join(pki, "healthcheck-client.crt"),
		Key: filepath.Join(pki, "healthcheck-client.key"),
	}
	var peers []string
	for _, container := range pod.Spec.Containers {
		for _, flag := range container.Command {
			name, value, _ := strings.Cut(flag, "=")
			switch name {
			case "--initial-advertise-peer-urls":
				m.PeerURLs = strings.Split(value, ",")
			case "--initial-cluster":
				peers = strings.Split(value, ",")
			}
		}
	}
	for _, peer := range peers {
		_, address, _ := strings.Cut(peer, "=")
		if u, err := url.Parse(address); err == nil && u.Host != "" && !slices.Contains(m.PeerURLs, address) {
			m.Others = append(m.Others, "https://"+net.JoinHostPort(u.Hostname(), clientPort))
		}
	}
	if len(m.PeerURLs) == 0 || len(m.Others) == 0 {
		return nil, nil
	}
	return m, nil
}

// Leave removes the member from its cluster. It asks the other members in turn, round after round, until one of them
// has removed the member or ctx ends. If ctx ends first, Leave returns the errors of the last round that ctx did not
// cut short, if there was one. It is not an error if the cluster does not know the member.
func (m *Member) Leave(ctx context.Context) error {
	client, err := m.client()
	if err != nil {
		return fmt.Errorf("leaving etcd: %w", err)
	}
	defer client.CloseIdleConnections()
	pauses := backoff.Backoff{First: 200 * time.Millisecond, Max: 3 * time.Second, Spread: backoff.FleetSpread}
	var last error
	for {
		var errs []error
		for _, other := range m.Others {
			err := m.leave(ctx, client, other)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		if last == nil || ctx.Err() == nil {
			last = errors.Join(errs...)
		}
		if pauses.Wait(ctx) != nil {
			return fmt.Errorf("leaving etcd: %w", last)
		}
	}
}

// leave asks one other member.
func (m *Member) leave(ctx context.Context, client *http.Client, server string) error {
	var list struct {
		Members []struct {
			ID       string   `json:"ID"`
			PeerURLs []string `json:"peerURLs"`
		} `json:"members"`
	}
	if err := call(ctx, client, server+"/v3/cluster/member/list", map[string]any{"linearizable": true},
		&list); err != nil {
		return err
	}
	for _, member := range list.Members {
		if slices.ContainsFunc(member.PeerURLs, func(u string) bool { return slices.Contains(m.PeerURLs, u) }) {
			if err := call(ctx, client, server+"/v3/cluster/member/remove", map[string]any{"ID": member.ID}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Member) client() (*http.Client, error) {
	ca, err := regular.Read(m.CA, 1<<20)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", m.CA)
	}
	pair, err := tls.LoadX509KeyPair(m.Cert, m.Key)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		},
	}, nil
}

// call makes one call of the JSON API.
func call(ctx context.Context, client *http.Client, address string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address, response.Status)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
