package upgrade

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

const (
	// askLimit bounds a request and fetchLimit a download; sizeLimit is the maximum size of an agent, in bytes.
	askLimit   = 30 * time.Second
	fetchLimit = 5 * time.Minute
	sizeLimit  = 64 << 20
)

var checksumText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// plane is the plane with which the host enrolled.
type plane struct {
	url  string
	http *http.Client
}

// newPlane returns the plane of a configuration, authenticated by the configuration's certificate authority.
func newPlane(c config.Config) (*plane, error) {
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	return &plane{url: c.Enrolment, http: &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
			TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: askLimit, DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// get requests a path and calls the function use with the body of the response. That function must limit how much it
// reads.
func (p *plane) get(ctx context.Context, path string, use func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return fmt.Errorf("reaching the plane: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the plane answers %s for %s", response.Status, path)
	}
	return use(response.Body)
}

// version returns the version of the plane.
func (p *plane) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var answer struct {
		Version string `json:"version"`
	}
	err := p.get(ctx, enrolment.VersionPath, func(body io.Reader) error {
		return json.NewDecoder(io.LimitReader(body, enrolment.BodyLimit)).Decode(&answer)
	})
	return answer.Version, err
}

// checksum returns the checksum of the agent for this architecture.
func (p *plane) checksum(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var sum string
	err := p.get(ctx, enrolment.AgentPath+runtime.GOARCH+enrolment.ChecksumSuffix, func(body io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(body, 1<<10))
		sum = strings.TrimSpace(string(data))
		return err
	})
	if err == nil && !checksumText.MatchString(sum) {
		err = errors.New("the plane's answer is not a checksum")
	}
	return sum, err
}

// fetch writes the agent for this architecture to path. If the checksum differs, it fails and leaves no file.
func (p *plane) fetch(ctx context.Context, path, checksum string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	sum := sha256.New()
	err = p.get(ctx, enrolment.AgentPath+runtime.GOARCH, func(body io.Reader) error {
		n, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(body, sizeLimit+1))
		if err == nil && n > sizeLimit {
			err = fmt.Errorf("the agent that the plane offers has more than %d MiB", sizeLimit>>20)
		}
		return err
	})
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != checksum {
		return fmt.Errorf("the fetched agent has checksum %s, but the plane reports %s", got, checksum)
	}
	return file.Sync()
}
