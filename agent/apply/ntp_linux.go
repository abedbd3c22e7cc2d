package apply

import (
	"context"
	"os"
	"strings"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/fault"
)

// timeClient is a program that sets the clock, with the path of its settings and its units.
type timeClient struct {
	installed string // a path that exists if it is installed
	file      string
	add       bool // append the settings to the file, which belongs to the program
	units     []string
	settings  func(*cloudconfig.NTP) string
}

// timeClients are in order of preference: an administrator who installed chrony wants it to be used.
var timeClients = []timeClient{
	{"/etc/chrony/conf.d", "/etc/chrony/conf.d/capstan.conf", false, []string{"chrony", "chronyd"}, chrony},
	{"/etc/chrony.conf", "/etc/chrony.conf", true, []string{"chronyd", "chrony"}, chrony},
	{"/usr/lib/systemd/systemd-timesyncd", "/etc/systemd/timesyncd.conf.d/capstan.conf", false,
		[]string{"systemd-timesyncd"}, timesyncd},
}

// NTP sets the time servers.
func (h *Host) NTP(ctx context.Context, ntp *cloudconfig.NTP) error {
	if !ntp.Enabled || len(ntp.Servers)+len(ntp.Pools) == 0 {
		return nil
	}
	if h.Local {
		h.Log.Printf("time servers are ignored: a local host uses the clock of its machine")
		return nil
	}
	for _, client := range timeClients {
		if _, err := os.Stat(client.installed); err != nil {
			continue
		}
		settings := cloudconfig.File{
			Path: client.file, Content: []byte(client.settings(ntp)), Mode: 0o644, Append: client.add,
		}
		if err := h.file("ntp", settings); err != nil {
			return fault.New(err, "writing the time servers")
		}
		if err := h.restart(ctx, client.units...); err != nil {
			return fault.New(err, "restarting the time service")
		}
		return nil
	}
	return fault.New(nil, "neither chrony nor systemd-timesyncd is installed; install one of them")
}

func chrony(ntp *cloudconfig.NTP) string {
	var b strings.Builder
	for _, server := range ntp.Servers {
		b.WriteString("server " + server + " iburst\n")
	}
	for _, pool := range ntp.Pools {
		b.WriteString("pool " + pool + " iburst\n")
	}
	return b.String()
}

func timesyncd(ntp *cloudconfig.NTP) string {
	return "[Time]\nNTP=" + strings.Join(append(append([]string{}, ntp.Servers...), ntp.Pools...), " ") + "\n"
}
