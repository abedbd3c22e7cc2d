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
	"github.com/capstan-dev/capstan/internal/regular"
)

const (
	// fetchLimit bounds the download of a bundle, including all retries. A plane with many hosts may serve it slowly.
	fetchLimit = 12 * time.Hour
	// idleLimit is how long a download may continue without receiving a byte, including all retries.
	idleLimit = time.Hour
	// stallLimit is how long a connection may be silent before it is replaced.
	stallLimit = 2 * time.Minute
	// archiveLimit bounds an archive, in bytes.
	archiveLimit = 4 << 30
)

// errNone says that the source does not have the bundle.
var errNone = errors.New("there is no such bundle")

// errComplete says that an earlier attempt has downloaded all of the file.
var errComplete = errors.New("the file is complete")

// download is one file to download from a web server.
type download struct {
	// url is the file's URL, and http is the client for the download.
	url  string
	http *http.Client
	// refused returns a fault for a status code after which retrying does not help, and nil for other codes.
	refused func(code int) error
}

// fetch downloads the file to path. If an earlier attempt has left a part of the file, the download resumes there; if
// it has left the whole file, the file is kept. Both require that the server still has the same file, and only the
// server can tell.
func (d *download) fetch(ctx context.Context, path string) error {
	return persist(ctx, func(ctx context.Context) (bool, error) { return d.once(ctx, path) })
}

// persist calls attempt until it succeeds, fails for good, or makes no progress for too long. An attempt reports
// whether it made progress. Its error is final if it is errNone or a fault.
func persist(ctx context.Context, attempt func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	pauses := backoff.Backoff{First: time.Second, Max: time.Minute, Spread: backoff.FleetSpread}
	for last := time.Now(); ; {
		brought, err := attempt(ctx)
		var final *fault.Fault
		switch {
		case err == nil || errors.Is(err, errNone) || errors.As(err, &final):
			return err
		case brought:
			last = time.Now()
			pauses.Reset()
		}
		if time.Since(last) > idleLimit || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fault.New(err, "the bundle could not be downloaded; see the agent's log, then delete "+
				"the machine to try again")
		}
		if pauses.Wait(ctx) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// once makes one attempt to start or resume the download.
func (d *download) once(ctx context.Context, path string) (brought bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alarm := time.AfterFunc(stallLimit, cancel)
	defer alarm.Stop()
	response, have, err := d.ask(ctx, path)
	if errors.Is(err, errComplete) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if have == 0 {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if err := atomicfile.Write(path+".etag", []byte(validator(response)), 0o600); err != nil {
			return false, fault.New(err, "the bundle can't be written")
		}
	}
	file, err := regular.Open(path, flags)
	if err != nil {
		return false, fault.New(err, "the bundle can't be written")
	}
	defer file.Close()
	body := &watched{reader: io.LimitReader(response.Body, archiveLimit-have), alarm: alarm}
	n, err := io.Copy(file, body)
	switch {
	case err != nil:
		return n > 0, fmt.Errorf("fetching the bundle: %w", err)
	case have+n >= archiveLimit:
		return true, fault.New(nil, "the bundle is larger than %d bytes", int64(archiveLimit))
	}
	if err := file.Close(); err != nil {
		return true, fault.New(err, "the bundle can't be written")
	}
	return true, nil
}

// ask requests the file, or the part of the file that path lacks. The result have is the number of bytes that path
// already has: the response continues after them.
func (d *download) ask(ctx context.Context, path string) (response *http.Response, have int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return nil, 0, fault.New(err, "%s can't be downloaded", d.url)
	}
	var tag string
	if path != "" {
		tag, have = before(path)
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		request.Header.Set("If-Range", tag)
	}
	request.Header.Set("Accept-Encoding", "identity") // the digest covers the file without any encoding
	if response, err = d.http.Do(request); err != nil {
		return nil, 0, fmt.Errorf("fetching the bundle: %w", err)
	}
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return response, 0, nil
	case code == http.StatusPartialContent && have > 0 &&
		strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		return response, have, nil
	case code == http.StatusRequestedRangeNotSatisfiable && have > 0 &&
		response.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", have):
		err = errComplete
	case code == http.StatusPartialContent, code == http.StatusRequestedRangeNotSatisfiable:
		// The server has another file by now, or does not identify the file that it sends.
		err = errors.Join(errors.New("fetching the bundle: starting over"), os.Remove(path))
	case code == http.StatusNotFound || code == http.StatusGone:
		err = errNone
	default:
		err = fmt.Errorf("fetching the bundle: the server answers %s", response.Status)
		if final := d.refused(code); final != nil {
			err = final
		}
	}
	response.Body.Close()
	return nil, 0, err
}

// watched postpones an alarm each time it reads something.
type watched struct {
	reader io.Reader
	alarm  *time.Timer
}

func (w *watched) Read(data []byte) (int, error) {
	n, err := w.reader.Read(data)
	if n > 0 {
		w.alarm.Reset(stallLimit)
	}
	return n, err
}

// validator returns what identifies the content of a response when its download is resumed, or an empty string if
// nothing does.
func validator(response *http.Response) string {
	if tag := response.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") && len(tag) <= 256 {
		return tag
	}
	return ""
}

// before returns what an earlier attempt downloaded: the ETag of the bundle and the number of bytes.
func before(path string) (tag string, have int64) {
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
