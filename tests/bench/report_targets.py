# SPDX-License-Identifier: Apache-2.0
def render(results):
    return ""
