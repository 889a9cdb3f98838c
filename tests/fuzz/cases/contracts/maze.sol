// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

contract Maze {
    event AssertionFailed(string label);

    uint256 private room;
    uint64 private held;

    function back() external {
        require(room > 0, "this is the entrance");
        room = (room - 1) / 2;
    }

    function pickUp(uint64 thing) external {
        held = thing;
    }

    function left(uint64 a, uint64 b, uint64 c, uint64 d, uint64 e) external {
        riddle(2 * room + 0, a, b, c, d, e);
        enter(0);
    }

    function right(uint64 a, uint64 b, uint64 c, uint64 d, uint64 e) external {
        riddle(2 * room + 1, a, b, c, d, e);
        enter(1);
    }

    function enter(uint256 door) private {
        uint256 next = 2 * room + 1 + door;
        require(next < 15, "a dead end");
        room = next;
    }

    function riddle(uint256 number, uint64 a, uint64 b, uint64 c, uint64 d, uint64 e) private {
        unchecked {
            if (number == 0) {
              if (a > 0) {
                if (b < d * 35) {
                  if (b == d + 3655658228320642915) {
                    if (e != 411770278714326835) {
                      if (b == d + 3655658228320642915) {
                        if (a % 37 == 1) {
                          emit AssertionFailed("0"); assert(false);
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 1) {
              if (a > 0) {
                if (b == 5596161367516773877) {
                  if (e != 6834936842587758054) {
                    if (e <= c) {
                      if (c != 8858624155593387958) {
                        if (e > b) {
                          if (e != 6834936842587758017) {
                            if (d == held + 3191423315263398314) {
                              emit AssertionFailed("1"); assert(false);
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 2) {
              if (a > 0) {
                if (c <= e) {
                  if (c > d) {
                    if (b == held + 11897116141543884968) {
                      if (a != 9392) {
                        emit AssertionFailed("2"); assert(false);
                      }
                    }
                  }
                }
              }
            }
            if (number == 3) {
              if (a > 0) {
                if (a == c + 17880423959744969654) {
                  if (c != 566320113964582008) {
                    if (b > a) {
                      if ((a ^ b) & 15 == 10) {
                        if (b != 12510135404841499860) {
                          if (a <= b) {
                            if (d <= b) {
                              if (d <= c) {
                                emit AssertionFailed("3"); assert(false);
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 4) {
              if (a > 0) {
                if (e == held + 4443522083244454818) {
                  if (c != 3929706146367189834) {
                    if (c % 40 == 19) {
                      if (d <= b) {
                        if (a < 5340) {
                          if (d % 23 == 4) {
                            if (a < 5359) {
                              emit AssertionFailed("4"); assert(false);
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 5) {
              if (a > 0) {
                if (b < 1767) {
                  if (c <= e) {
                    emit AssertionFailed("5"); assert(false);
                  }
                }
              }
            }
            if (number == 6) {
              if (a > 0) {
                if (b == held + 12694861219649810614) {
                  if (a > 6526) {
                    if (b < 12694861219649810647) {
                      if (a < e * 20) {
                        if (c <= d) {
                          emit AssertionFailed("6"); assert(false);
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 7) {
              if (a > 0) {
                if (c >= a * 30) {
                  if (d <= c) {
                    if (e < 2912684545706367187) {
                      emit AssertionFailed("7"); assert(false);
                    }
                  }
                }
              }
            }
            if (number == 8) {
              if (a > 0) {
                if (d > c) {
                  if (c < 43) {
                    if (e < 5224) {
                      emit AssertionFailed("8"); assert(false);
                    }
                  }
                }
              }
            }
            if (number == 9) {
              if (a > 0) {
                if (a % 17 == 0) {
                  if (d != 6490) {
                    if (d < b * 33) {
                      if (c == held + 464472722934744422) {
                        if (b != 7683) {
                          if (d < a * 19) {
                            if (b == 7614) {
                              if (a > b) {
                                if (e < 14903931375326630527) {
                                  emit AssertionFailed("9"); assert(false);
                                }
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 10) {
              if (a > 0) {
                if (c > d) {
                  if (c < 155) {
                    if (d != 88) {
                      if (c < 147) {
                        if (d <= b) {
                          if ((c ^ b) & 15 == 5) {
                            emit AssertionFailed("10"); assert(false);
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 11) {
              if (a > 0) {
                if (e != 114) {
                  if (d < 383255396408780729) {
                    if (d <= b) {
                      if (a <= c) {
                        if (e < 89) {
                          if (d < 383255396408780716) {
                            if (a < d * 19) {
                              if (e > 53) {
                                emit AssertionFailed("11"); assert(false);
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 12) {
              if (a > 0) {
                if (d < 14568641293309626479) {
                  if (d != 14568641293309626513) {
                    if (b < a * 47) {
                      if (c == held + 9294687700232816592) {
                        if (c < 4281745276716612083) {
                          emit AssertionFailed("12"); assert(false);
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 13) {
              if (a > 0) {
                if (a % 22 == 19) {
                  if (d == c + 3908994469570831810) {
                    emit AssertionFailed("13"); assert(false);
                  }
                }
              }
            }
            if (number == 14) {
              if (a > 0) {
                if (c < b * 26) {
                  if ((c ^ e) & 3 == 3) {
                    if (b > a) {
                      emit AssertionFailed("14"); assert(false);
                    }
                  }
                }
              }
            }
            if (number == 15) {
              if (a > 0) {
                if (b > a) {
                  if (b == 9894923317332054938) {
                    emit AssertionFailed("15"); assert(false);
                  }
                }
              }
            }
            if (number == 16) {
              if (a > 0) {
                if (d < 106) {
                  if (e % 20 == 0) {
                    if (b != 5398) {
                      if (c != 4293) {
                        if (e < 4061) {
                          if (d != 83) {
                            emit AssertionFailed("16"); assert(false);
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 17) {
              if (a > 0) {
                if (e % 13 == 8) {
                  if (d == 6246968989652902948) {
                    if (e < c * 15) {
                      emit AssertionFailed("17"); assert(false);
                    }
                  }
                }
              }
            }
            if (number == 18) {
              if (a > 0) {
                if (e > c) {
                  if (e <= d) {
                    if (e > c) {
                      if (b <= d) {
                        if (e > 8354) {
                          if (d != 8768) {
                            if (a == held + 4669600650257868227) {
                              if (c % 7 == 1) {
                                emit AssertionFailed("18"); assert(false);
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 19) {
              if (a > 0) {
                if (c == held + 15825167222598654453) {
                  if (d != 13641732271328918384) {
                    if (b < 68) {
                      if (e <= b) {
                        emit AssertionFailed("19"); assert(false);
                      }
                    }
                  }
                }
              }
            }
            if (number == 20) {
              if (a > 0) {
                if (d == 16028947172592530352) {
                  if (a > b) {
                    if (c != 3313) {
                      if (c != 3377) {
                        if (c == held + 13511618702424676038) {
                          if (e <= a) {
                            if (e == b + 8) {
                              if (c > e) {
                                emit AssertionFailed("20"); assert(false);
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 21) {
              if (a > 0) {
                if (d < 12966630386149563864) {
                  if (c < 45) {
                    if (c > 0) {
                      if (a != 80) {
                        emit AssertionFailed("21"); assert(false);
                      }
                    }
                  }
                }
              }
            }
            if (number == 22) {
              if (a > 0) {
                if (e <= d) {
                  if (e > 3936) {
                    if (c == held + 4592357747833975209) {
                      emit AssertionFailed("22"); assert(false);
                    }
                  }
                }
              }
            }
            if (number == 23) {
              if (a > 0) {
                if (b < 8017181353809345733) {
                  if (b % 23 == 4) {
                    if (c < 51) {
                      if (d < 6889446795197467836) {
                        if (c < e * 53) {
                          if (e > a) {
                            if (a != 89) {
                              emit AssertionFailed("23"); assert(false);
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 24) {
              if (a > 0) {
                if (c == 9925) {
                  if (b < 6964) {
                    if (b == 6918) {
                      if (c % 24 == 13) {
                        if (c < a * 28) {
                          if (d > 55) {
                            if (d < b * 35) {
                              emit AssertionFailed("24"); assert(false);
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 25) {
              if (a > 0) {
                if (b > d) {
                  if (e > a) {
                    if (c < 2039) {
                      if (d == 6278) {
                        if (a > b) {
                          emit AssertionFailed("25"); assert(false);
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 26) {
              if (a > 0) {
                if (b > 8535) {
                  if (a != 120) {
                    if (e == held + 7032022075063632902) {
                      if (a < 79) {
                        if (a == e + 15207359745578767636) {
                          if (c > 27) {
                            if ((b ^ e) & 7 == 7) {
                              if ((e ^ d) & 15 == 11) {
                                emit AssertionFailed("26"); assert(false);
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 27) {
              if (a > 0) {
                if (b < a * 6) {
                  if (b < 131) {
                    if (d < e * 39) {
                      if (e >= b * 36) {
                        if (a % 10 == 9) {
                          if (c >= b * 27) {
                            if (c > 4159) {
                              emit AssertionFailed("27"); assert(false);
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
            if (number == 28) {
              if (a > 0) {
                if (b >= d * 35) {
                  if (b < c * 47) {
                    emit AssertionFailed("28"); assert(false);
                  }
                }
              }
            }
            if (number == 29) {
              if (a > 0) {
                if (b < 3785) {
                  if (d > 2100) {
                    if (e % 26 == 25) {
                      if (e > 3953834010170060150) {
                        emit AssertionFailed("29"); assert(false);
                      }
                    }
                  }
                }
              }
            }
        }
    }
}
