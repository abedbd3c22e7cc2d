package baseline

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dpkg is the path of Debian's package database.
const dpkg = "/var/lib/dpkg"

// generated are files that are regenerated from packages' files and belong to no package.
var generated = []string{"/etc/ld.so.cache"}

// packages returns the digest of the package database; empty if the host has no database of a known kind.
func (h Host) packages() (string, error) {
	sum, err := digest(filepath.Join(h.Root, dpkg, "status"))
	if errors.Is(err, fs.ErrNotExist) {
		return h.rpmDigest()
	}
	return sum, err
}

// withoutPackages drops the changes that the package database explains: files with the recorded checksum, and
// directories and links that belong to a package. It keeps privileged files, because a package's script can create
// anything.
func (h Host) withoutPackages(ctx context.Context, changes []change) ([]change, error) {
	wanted := map[string]bool{}
	for _, c := range changes {
		wanted[c.path] = true
	}
	record := h.recorded
	if h.rpmDatabase() != "" {
		record = func(wanted map[string]bool) (map[string]string, map[string]bool, error) {
			return h.recordedByRPM(ctx, wanted)
		}
	}
	sums, listed, err := record(wanted)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c change) bool {
		switch {
		case slices.Contains(generated, c.path):
			return true
		case c.now == nil:
			return false // a removed package leaves no record, so somebody has to look
		case sums[c.path] != "":
			sum, err := checksum(filepath.Join(h.Root, c.path), len(sums[c.path]))
			return err == nil && sum == sums[c.path] && c.now.uid == 0
		default:
			return listed[c.path] && !c.now.privileged() && (c.before == nil || c.before.digest == "") && !isFile(c.now)
		}
	}), nil
}

func isFile(e *entry) bool { return e.mode&unix.S_IFMT == unix.S_IFREG }

// recorded looks up the wanted paths: it returns the checksums of files, and which paths belong to a package.
func (h Host) recorded(wanted map[string]bool) (sums map[string]string, listed map[string]bool, err error) {
	sums, listed = map[string]string{}, map[string]bool{}
	note := func(path string) (string, bool) {
		for _, p := range []string{path, "/usr" + path} { // /lib may be a link to /usr/lib
			if wanted[p] {
				return p, true
			}
		}
		return "", false
	}
	read := func(pattern string, line func(string)) error {
		files, err := filepath.Glob(filepath.Join(h.Root, dpkg, pattern))
		for _, file := range files {
			if err := eachLine(file, line); err != nil {
				return err
			}
		}
		return err
	}
	err = errors.Join(
		read("info/*.list", func(line string) {
			if path, ok := note(line); ok {
				listed[path] = true
			}
		}),
		read("info/*.md5sums", func(line string) {
			sum, rest, _ := strings.Cut(line, "  ")
			if path, ok := note("/" + rest); ok {
				sums[path] = sum
			}
		}),
		// Conffiles: " /etc/ssh/sshd_config 0123…".
		read("status", func(line string) {
			if fields := strings.Fields(line); strings.HasPrefix(line, " /") && len(fields) >= 2 {
				if path, ok := note(fields[0]); ok {
					sums[path] = fields[1]
				}
			}
		}),
	)
	return sums, listed, err
}

func eachLine(path string, do func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 1<<16), longestLine)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}

// checksum returns the checksum of a file in the format of the package database, given its number of digits: MD5 or
// SHA-256. MD5 is enough here, because it only tells packages' own files apart.
func checksum(path string, digits int) (string, error) {
	if digits == 2*sha256.Size {
		return digest(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := md5.Sum(data)
	return hex.EncodeToString(sum[:]), nil
}
