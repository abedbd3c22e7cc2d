package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/internal/regular"
)

const (
	// fetchLimit bounds the download of a bundle, including all retries.
	fetchLimit = time.Hour
	// archiveLimit bounds an archive, in bytes.
	archiveLimit = 4 << 30
)

// errNone says that the plane does not have the bundle.
var errNone = errors.New("the plane has no such bundle")

// Plane is the source of bundles: the plane's enrolment server, which identifies the host by its key.
type Plane struct {
	// URL is the server's URL.
	URL string
	// HTTP presents the host's certificate and trusts only the plane's certificate authority.
	HTTP *http.Client
}

// fetch downloads a bundle to path. It resumes an earlier attempt as long as the plane still has the same bundle.
func (p *Plane) fetch(ctx context.Context, version, arch, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit,
		fault.New(nil, "the bundle of Kubernetes %s could not be fetched within %s; see the agent's log",
			version, fetchLimit))
	defer cancel()
	url := strings.TrimRight(p.URL, "/") + enrolment.BundlePath + version + "/linux/" + arch
	pauses := backoff.Backoff{First: time.Second, Max: time.Minute, Spread: backoff.FleetSpread}
	for {
		err := p.once(ctx, url, path)
		if err == nil || errors.Is(err, errNone) {
			return err
		}
		var final *fault.Fault
		if errors.As(err, &final) {
			return err
		}
		if pauses.Wait(ctx) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// once makes one attempt to start or resume a download. An error that is not a fault may be temporary.
func (p *Plane) once(ctx context.Context, url, path string) error {
	tag, have := p.before(path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		request.Header.Set("If-Range", tag)
	}
	response, err := p.HTTP.Do(request)
	if err != nil {
		return fmt.Errorf("fetching the bundle: %w", err)
	}
	defer response.Body.Close()
	flags := os.O_WRONLY | os.O_CREATE
	switch response.StatusCode {
	case http.StatusPartialContent:
		flags |= os.O_APPEND
	case http.StatusOK:
		flags |= os.O_TRUNC
		have = 0
	case http.StatusRequestedRangeNotSatisfiable: // the file is complete, or the plane has another bundle by now
		return errors.Join(errors.New("fetching the bundle: starting over"), os.Remove(path))
	case http.StatusNotFound:
		return errNone
	case http.StatusForbidden:
		return fault.New(nil, "the plane does not know this host's key and refuses bundles; enroll the host again")
	default:
		return fmt.Errorf("fetching the bundle: the plane answers %s", response.Status)
	}
	if have == 0 {
		if err := atomicfile.Write(path+".etag", []byte(response.Header.Get("ETag")), 0o600); err != nil {
			return fault.New(err, "the bundle can't be written")
		}
	}
	file, err := regular.Open(path, flags)
	if err != nil {
		return fault.New(err, "the bundle can't be written")
	}
	defer file.Close()
	n, err := io.Copy(file, io.LimitReader(response.Body, archiveLimit-have))
	if err != nil {
		return fmt.Errorf("fetching the bundle: %w", err)
	}
	if have+n >= archiveLimit {
		return fault.New(nil, "the bundle is larger than %d bytes", int64(archiveLimit))
	}
	if err := file.Close(); err != nil {
		return fault.New(err, "the bundle can't be written")
	}
	return nil
}

// before returns what an earlier attempt downloaded: the ETag of the bundle and the number of bytes.
func (p *Plane) before(path string) (tag string, have int64) {
	text, err := regular.Read(path+".etag", 256)
	if err != nil || len(text) == 0 {
		return "", 0
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", 0
	}
	return string(text), info.Size()
}

// forget removes the downloaded files.
func forget(path string) error {
	var errs []error
	for _, name := range []string{path, path + ".etag"} {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
