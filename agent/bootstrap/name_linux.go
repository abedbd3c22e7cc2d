package bootstrap

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/regular"
)

// hostsPath is the file in which names are looked up before DNS is queried.
const hostsPath = "/etc/hosts"

// hostsLimit bounds that file, in bytes.
const hostsLimit = 1 << 20

// nameNode adds the Node's name to /etc/hosts until the host is cleaned. kubeadm looks the name up once, and the
// kubelet each time it reports. If no DNS server answers, each lookup takes ten seconds, and the Node is late to
// register and to become Ready. Without the line everything only takes longer, so failing to write it is not an error.
func (b *Bootstrap) nameNode() {
	name, _ := b.Metadata["local_hostname"].(string)
	address, _ := b.Metadata["local_ipv4"].(string)
	if err := b.addName(address, name); err != nil {
		b.Log.Printf("%s does not get the Node's name, so DNS is asked for it: %v", hostsPath, err)
	}
}

func (b *Bootstrap) addName(address, name string) error {
	if _, err := netip.ParseAddr(address); err != nil {
		return fmt.Errorf("the host's address: %w", err)
	}
	return changeNames(func(text string) (string, error) { return withName(text, address, name) })
}

// ForgetName removes the names of Nodes from /etc/hosts. Other lines stay as they are: the administrator may have
// changed them meanwhile.
func ForgetName() error {
	return changeNames(func(text string) (string, error) { return withoutNames(text), nil })
}

// changeNames replaces the text of /etc/hosts with the result of the function change, if the two differ.
func changeNames(change func(text string) (string, error)) error {
	info, err := os.Lstat(hostsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := regular.Read(hostsPath, hostsLimit)
	if err != nil {
		return err
	}
	next, err := change(string(text))
	if err != nil || next == string(text) {
		return err
	}
	if stat, is := info.Sys().(*syscall.Stat_t); !is || stat.Uid != 0 || stat.Gid != 0 {
		return errors.New("the file does not belong to root")
	}
	return atomicfile.Write(hostsPath, []byte(next), info.Mode().Perm())
}

// nodeMark is at the end of each line that nameNode adds.
const nodeMark = " # the Node on this host"

// withName returns the text of /etc/hosts with a line for a name, unless it has the name already. Pure.
func withName(text, address, name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "# \t\r\n") {
		return "", fmt.Errorf("%q is not a valid name", name)
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for n, field := range strings.Fields(line) {
			if n > 0 && strings.EqualFold(field, name) {
				return text, nil
			}
		}
	}
	line := address + " " + name + nodeMark
	if text != "" && !strings.HasSuffix(text, "\n") {
		return text + "\n" + line, nil // so that withoutNames can restore the text exactly
	}
	return text + line + "\n", nil
}

// withoutNames returns the text as it was before withName. Pure.
func withoutNames(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(strings.TrimSuffix(line, "\n"), nodeMark) {
			kept.WriteString(line)
		}
	}
	if strings.HasSuffix(text, nodeMark) {
		return strings.TrimSuffix(kept.String(), "\n")
	}
	return kept.String()
}
