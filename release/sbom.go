package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// The types of SPDX 2.3, with the fields that a release fills in. The comment at each field is its
// clause in the specification.
type (
	spdxDocument struct {
		ID            string             `json:"SPDXID"`            // 6.3
		Version       string             `json:"spdxVersion"`       // 6.1
		Name          string             `json:"name"`              // 6.4
		Namespace     string             `json:"documentNamespace"` // 6.5, unique for each document
		DataLicence   string             `json:"dataLicense"`       // 6.2, always CC0-1.0
		Creation      spdxCreation       `json:"creationInfo"`      // 6.8, 6.9
		Packages      []spdxPackage      `json:"packages"`          // 7
		Relationships []spdxRelationship `json:"relationships"`     // 11
	}
	spdxCreation struct {
		Created  string   `json:"created"`  // 6.9
		Creators []string `json:"creators"` // 6.8
	}
	spdxPackage struct {
		ID        string          `json:"SPDXID"`                // 7.2
		Name      string          `json:"name"`                  // 7.1
		Version   string          `json:"versionInfo"`           // 7.3
		Location  string          `json:"downloadLocation"`      // 7.7
		Analyzed  bool            `json:"filesAnalyzed"`         // 7.8
		Checksums []spdxChecksum  `json:"checksums,omitempty"`   // 7.10
		Source    string          `json:"sourceInfo,omitempty"`  // 7.12
		Concluded string          `json:"licenseConcluded"`      // 7.13
		Declared  string          `json:"licenseDeclared"`       // 7.15
		Copyright string          `json:"copyrightText"`         // 7.17
		Purpose   string          `json:"primaryPackagePurpose"` // 7.24
		Refs      []spdxReference `json:"externalRefs"`          // 7.21
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// unasserted is the SPDX value for a field that was not examined.
const unasserted = "NOASSERTION"

// writeSBOM writes the list of the modules in a binary, as the toolchain recorded them, with their
// licences. Scanners identify the modules by their package URLs.
func (r *release) writeSBOM(w io.Writer, p *program) error {
	sum := fmt.Sprintf("%x", sha256.Sum256(p.binary))
	name := "postrider_" + r.number() + "_" + p.os + "_" + p.arch
	own := spdxPackage{
		ID: "SPDXRef-postrider", Name: p.info.Main.Path, Version: p.info.Main.Version, Location: unasserted,
		Checksums: []spdxChecksum{{"SHA256", sum}}, Source: "git revision " + r.revision,
		Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: unasserted, Purpose: "APPLICATION",
		Refs: packageURL(p.info.Main.Path, p.info.Main.Version),
	}
	d := spdxDocument{
		ID: "SPDXRef-DOCUMENT", Version: "SPDX-2.3", Name: name, DataLicence: "CC0-1.0",
		// The namespace is unique, because the binary is.
		Namespace: "https://" + p.info.Main.Path + "/spdx/" + name + "-" + sum,
		Creation: spdxCreation{
			Created:  r.time.Format(time.RFC3339),
			Creators: []string{"Organization: Postrider", "Tool: postrider/release-" + r.number()},
		},
		Packages:      []spdxPackage{own},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", own.ID}},
	}
	sums := map[string]string{}
	for _, module := range p.info.Deps {
		sums[module.Path] = "go.sum " + module.Sum
	}
	for i, l := range p.licences {
		id, module, version := fmt.Sprintf("SPDXRef-module-%d", i), l.module, l.version
		if module == "std" { // the name and the version format that scanners use
			module, version = "stdlib", strings.TrimPrefix(version, "go")
		}
		d.Packages = append(d.Packages, spdxPackage{
			ID: id, Name: module, Version: version, Location: unasserted, Source: sums[module],
			Concluded: unasserted, Declared: l.id, Copyright: unasserted, Purpose: "LIBRARY",
			Refs: packageURL(module, version),
		})
		d.Relationships = append(d.Relationships, spdxRelationship{own.ID, "DEPENDS_ON", id})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// packageURL returns the reference by which scanners identify a Go module.
func packageURL(module, version string) []spdxReference {
	escaped := strings.ReplaceAll(version, "+", "%2B")
	return []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module + "@" + escaped}}
}
