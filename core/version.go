package core

// Version is one version of the protocol, as far as the transport differs.
type Version struct {
	Name    string
	Polls   bool // its clients know primers and connections that the server closes (SEP-1699)
	Batches bool // has JSON-RPC batches
}

// Versions lists the versions of the legacy era, newest first: those with sessions, GET and resumption.
var Versions = [...]Version{
	{Name: "2025-11-25", Polls: true},
	{Name: "2025-06-18"},
	{Name: "2025-03-26", Batches: true},
	{Name: "2024-11-05"},
}

// FirstModern is the first version of the modern era: without sessions and resumption.
const FirstModern = "2026-07-28"

// Find returns the version with that name.
func Find(name string) (Version, bool) {
	for _, v := range Versions {
		if v.Name == name {
			return v, true
		}
	}
	return Version{}, false
}

// place returns the place of the version with that name in Versions, counted from 1; 0: there is none.
func place(name string) uint8 {
	for k := range Versions {
		if Versions[k].Name == name {
			return uint8(k + 1)
		}
	}
	return 0
}

// IsModern reports whether name has the form of a version, and that version is FirstModern or later.
func IsModern(name string) bool {
	if len(name) != len(FirstModern) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if i == 4 || i == 7 {
			if c != '-' {
				return false
			}
		} else if c < '0' || c > '9' {
			return false
		}
	}
	return name >= FirstModern
}
