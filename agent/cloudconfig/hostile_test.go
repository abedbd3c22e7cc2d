package cloudconfig

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// zeros returns an entry of write_files whose content, when uncompressed, consists of zero bytes. The parameter size is
// their number, a multiple of 1 MiB. The function compresses one MiB and repeats that block, because compressing a GiB
// takes longer than all tests here.
func zeros(t *testing.T, size int) string {
	t.Helper()
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	mebibyte := make([]byte, 1<<20)
	var ends []int // of the first two blocks; the second block refers back to zeros, so it can be repeated
	for range 2 {
		if _, err := z.Write(mebibyte); err != nil || z.Flush() != nil {
			t.Fatal("packing failed")
		}
		ends = append(ends, b.Len())
	}
	if z.Close() != nil {
		t.Fatal("packing failed")
	}
	first, next, last := b.Bytes()[:ends[0]], b.Bytes()[ends[0]:ends[1]], b.Bytes()[ends[1]:]
	sum := crc32.NewIEEE()
	for range size >> 20 {
		_, _ = sum.Write(mebibyte)
	}
	packed := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}, first...)
	packed = append(append(packed, bytes.Repeat(next, size>>20-1)...), last...)
	packed = binary.LittleEndian.AppendUint32(packed, sum.Sum32())
	packed = binary.LittleEndian.AppendUint32(packed, uint32(size))
	return "{path: /a, encoding: gz+b64, content: " + base64.StdEncoding.EncodeToString(packed) + "}"
}

// hostile is data that tries to use excessive resources, keyed by what it tries.
var hostile = map[string]struct {
	data func(t *testing.T) string
	want string // in the error; empty if there is none
}{
	"a file of 60 MiB in 60 KB": {func(t *testing.T) string {
		return "write_files:\n- " + zeros(t, 60<<20) + "\n"
	}, ""},
	"a file of 1 GiB in 1 MB": {func(t *testing.T) string {
		return "write_files:\n- " + zeros(t, 1<<30) + "\n"
	}, "64 MiB"},
	"two files of 40 MiB": {func(t *testing.T) string {
		return "write_files:\n- " + zeros(t, 40<<20) + "\n- " + zeros(t, 40<<20) + "\n"
	}, "64 MiB"},
	"a packed file a thousand times, by aliases": {func(t *testing.T) string {
		return "write_files:\n- &a " + zeros(t, 1<<20) + strings.Repeat("\n- *a", 1_000) + "\n"
	}, "64 MiB"},
	"a plain file ten thousand times, by aliases": {func(*testing.T) string {
		return "write_files:\n- &a {path: /a, content: " + strings.Repeat("x", 1<<19) + "}" +
			strings.Repeat("\n- *a", 10_000) + "\n"
	}, "aliases"},
	"commands of aliases of aliases": {func(*testing.T) string {
		return "runcmd:\n- &b [&a " + strings.Repeat("x", 1_000) + strings.Repeat(",*a", 10_000) + "]" +
			strings.Repeat("\n- *b", 10_000) + "\n"
	}, "aliases"},
	"lists of aliases that are empty": {func(*testing.T) string {
		return "runcmd:\n- &b [&a ''" + strings.Repeat(",*a", 20_000) + "]" + strings.Repeat("\n- *b", 20_000) + "\n"
	}, "aliases"},
	"users with aliases of keys": {func(*testing.T) string {
		return "users:\n- &u {name: bob, ssh_authorized_keys: [&a " + strings.Repeat("x", 1_000) +
			strings.Repeat(",*a", 10_000) + "]}" + strings.Repeat("\n- *u", 10_000) + "\n"
	}, "aliases"},
	"a million values": {func(*testing.T) string {
		return "runcmd: [" + strings.Repeat("a,", 1_000_000) + "]\n"
	}, "values"},
	"as many values as are allowed": {func(*testing.T) string {
		return "runcmd: [" + strings.Repeat("a,", nodeLimit-10) + "]\n"
	}, ""},
	"a template that replaces again and again": {func(*testing.T) string {
		return "runcmd: ['{{ 'a'" + strings.Repeat(" | replace('a', 'aaaaaaaaaa')", 12) + " }}']\n"
	}, "line 3"},
	"a template that replaces the empty text again and again": {func(*testing.T) string {
		return "runcmd: ['{{ 'a'" + strings.Repeat(" | replace('', 'aaaaaaaaaa')", 12) + " }}']\n"
	}, "line 3"},
	"a template that repeats a large value": {func(*testing.T) string {
		return "runcmd: ['" + strings.Repeat("{{'a' | replace('a','"+strings.Repeat("x", 1_000)+"') | replace('x','"+
			strings.Repeat("y", 1_000)+"') }}", 100) + "']\n"
	}, "larger than"},
	"anchors in anchors": {func(*testing.T) string {
		text := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
		for i := 1; i < 20; i++ {
			text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
		}
		return text
	}, "not supported"},
	"deep nesting": {func(*testing.T) string { return "runcmd: " + strings.Repeat("[", 90_000) + "\n" }, "not valid YAML"},
}

const (
	childVariable = "CAPSTAN_TEST_HOSTILE_DATA"
	// most is the maximum memory of the process, in MiB, including the test binary and the data.
	most = 100 * raceFactor
)

// Data that tries to use excessive resources costs the agent little memory and time. Each case has its own process.
func TestHostileDataIsCheap(t *testing.T) {
	if name := os.Getenv(childVariable); name != "" {
		readHostile(t, name)
		return
	}
	peak := regexp.MustCompile(`peak (\d+) KiB`)
	for name := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestHostileDataIsCheap$", "-test.v",
				"-test.timeout=60s")
			cmd.Env = append(os.Environ(), childVariable+"="+name)
			out, err := cmd.CombinedOutput()
			found := peak.FindSubmatch(out)
			if err != nil || found == nil {
				t.Fatalf("%v: %s", err, out)
			}
			if kib, _ := strconv.Atoi(string(found[1])); kib > most<<10 {
				t.Errorf("the process needed %d MiB; %d MiB are allowed", kib>>10, most)
			}
		})
	}
}

// readHostile parses the data as the agent does, and prints how much memory that needed.
func readHostile(t *testing.T, name string) {
	t.Helper()
	c := hostile[name]
	file := t.TempDir() + "/data"
	if err := os.WriteFile(file, []byte("## template: jinja\n"+header+c.data(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory() // creating the data does not count
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config, err := Parse(data, testVars)
	if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
		t.Errorf("the error is %v, want %q", err, c.want)
	}
	if err == nil {
		for _, f := range config.Files {
			content, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("parsing and uncompressing took %s", took)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Printf("peak %s KiB\n", strings.Fields(after)[0])
}
